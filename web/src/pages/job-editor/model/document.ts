/**
 * The document of a job: the JSON that the API accepts. The form and the text are two views of it. The form reads and
 * writes single values by their JSON pointers, and does not change other values.
 */
export type JobDocument = { readonly [name: string]: unknown }

export const NEW_JOB: JobDocument = {
  name: '',
  task: { kind: 'http', url: '' },
  schedule: { type: 'cron', expression: '0 * * * *', timezone: 'UTC' },
}

export const NEW_WORKFLOW: JobDocument = {
  kind: 'workflow',
  tasks: [
    { name: 'first', task: { kind: 'shell', command: 'echo first' } },
    { name: 'second', needs: ['first'], task: { kind: 'shell', command: 'echo second' } },
  ],
}

/** The order of fields in the text. Other fields follow in their original order. */
const FIELD_ORDER = [
  'name',
  'description',
  'task',
  'taskId',
  'parameters',
  'schedule',
  'startAt',
  'endAt',
  'maxRuns',
  'calendars',
  'excluded',
  'jitter',
  'retry',
  'timeout',
  'grace',
  'overlap',
  'catchUp',
  'catchUpWindow',
  'startDeadline',
  'priority',
  'orderingKey',
  'onFailure',
  'concurrency',
  'rateLimit',
  'resources',
  'runsOn',
  'delivery',
  'preemptible',
  'resultLocation',
  'slo',
  'tags',
  'userId',
] as const

/** The values that the API uses for absent fields. A field with its default value is not written. */
const DEFAULTS: Readonly<Record<string, unknown>> = {
  description: '',
  parameters: {},
  retry: { maxRetries: 3, backoff: 'exponential', base: '5s', cap: '1h' },
  priority: 'medium',
  timeout: null,
  grace: '5s',
  overlap: 'queue',
  catchUp: 'all',
  catchUpWindow: '1h',
  onFailure: 'block',
  excluded: 'skip',
  delivery: 'at_least_once',
  preemptible: false,
  calendars: [],
  runsOn: [],
  tags: [],
  userId: '',
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, at) => same(item, b[at]))
  if (!isRecord(a) || !isRecord(b)) return false
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every(name => Object.hasOwn(b, name) && same(a[name], b[name]))
}

function steps(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

export function valueAt(document: unknown, pointer: string): unknown {
  let value = document
  for (const step of steps(pointer)) {
    if (Array.isArray(value)) value = value[Number(step)] as unknown
    else if (isRecord(value) && Object.hasOwn(value, step)) value = value[step]
    else return undefined
  }
  return value
}

/** Returns a value as the text of a form field. A value that is neither a text nor a number is returned as JSON. */
export function textAt(document: unknown, pointer: string): string {
  const value = valueAt(document, pointer)
  if (value === undefined || value === null) return ''
  return typeof value === 'string' || typeof value === 'number' ? String(value) : JSON.stringify(value)
}

/**
 * Returns a copy with another value at the pointer. The value `undefined` removes the field, and each object that
 * becomes empty.
 */
export function withValue(document: JobDocument, pointer: string, value: unknown): JobDocument {
  const changed = setIn(document, steps(pointer), value)
  return isRecord(changed) ? changed : {}
}

function setIn(target: unknown, path: readonly string[], value: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return value
  if (Array.isArray(target)) {
    const items: readonly unknown[] = target
    const index = Number(step)
    if (rest.length === 0 && value === undefined) return items.toSpliced(index, 1)
    return items.with(index, setIn(items[index], rest, value) ?? {})
  }
  const before = isRecord(target) ? target : {}
  const next = setIn(Object.hasOwn(before, step) ? before[step] : undefined, rest, value)
  const { [step]: _, ...others } = before
  if (next === undefined) return Object.keys(others).length > 0 ? others : undefined
  // An existing field keeps its position; a new one is appended.
  return Object.hasOwn(before, step)
    ? Object.fromEntries(Object.entries(before).map(([name, item]) => [name, name === step ? next : item]))
    : { ...before, [step]: next }
}

export function ordered(document: JobDocument): JobDocument {
  const known = FIELD_ORDER.filter(name => Object.hasOwn(document, name))
  const others = Object.keys(document).filter(name => !(FIELD_ORDER as readonly string[]).includes(name))
  return Object.fromEntries([...known, ...others].map(name => [name, document[name]]))
}

export function textOf(document: JobDocument): string {
  return JSON.stringify(ordered(document), null, 2)
}

export type Parsed = { document: JobDocument } | { error: string; line: number | null }

export function parseText(text: string): Parsed {
  try {
    const value: unknown = JSON.parse(text)
    if (!isRecord(value)) return { error: 'It has to be a JSON object: { … }.', line: 1 }
    return { document: value }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const at = /position (\d+)/.exec(message)?.[1]
    const line = at === undefined ? null : text.slice(0, Number(at)).split('\n').length
    return { error: message.replace(/ \(line \d+ column \d+\)/, ''), line }
  }
}

/**
 * Returns the document of a job from an answer of the API, without the fields that the server adds and without default
 * values.
 */
export function documentOf(job: object): JobDocument {
  const given = job as Record<string, unknown>
  const kept = FIELD_ORDER.filter(
    name => given[name] !== undefined && given[name] !== null && !same(given[name], DEFAULTS[name]),
  )
  const document: Record<string, unknown> = Object.fromEntries(kept.map(name => [name, given[name]]))
  const schedule = document.schedule
  if (isRecord(schedule)) {
    const { dstGap, dstOverlap, ...rest } = schedule
    document.schedule = {
      ...rest,
      ...(dstGap === undefined || dstGap === 'run' ? {} : { dstGap }),
      ...(dstOverlap === undefined || dstOverlap === 'first' ? {} : { dstOverlap }),
    }
  }
  const retry = document.retry
  if (isRecord(retry)) {
    const defaults = DEFAULTS.retry as Record<string, unknown>
    document.retry = Object.fromEntries(Object.entries(retry).filter(([name, value]) => !same(value, defaults[name])))
  }
  return document
}

/** Returns the document of a new job with the definition of another one. */
export function cloneOf(document: JobDocument): JobDocument {
  const name = typeof document.name === 'string' ? document.name : ''
  return { ...document, name: name === '' ? '' : `${name}-copy` }
}

/**
 * Returns the body of an update: the fields that differ. A removed field is null, which sets its default. The server
 * merges the fields of `retry`, so its removed fields are null as well.
 */
export function changeOf(before: JobDocument, after: JobDocument): Record<string, unknown> {
  const change: Record<string, unknown> = {}
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const value = after[name]
    if (same(before[name], value)) continue
    if (value === undefined) {
      // A job has either `task` or `taskId`. Setting one of them removes the other.
      if ((name === 'task' || name === 'taskId') && (after.task ?? after.taskId) !== undefined) continue
      change[name] = null
    } else if (name === 'retry' && isRecord(value)) change[name] = { ...retryDefaults(before.retry, value), ...value }
    else change[name] = value
  }
  return change
}

function retryDefaults(before: unknown, after: Record<string, unknown>): Record<string, unknown> {
  if (!isRecord(before)) return {}
  const defaults = { ...(DEFAULTS.retry as object), nonRetryable: {} } as Record<string, unknown>
  const gone = Object.keys(before).filter(name => after[name] === undefined && Object.hasOwn(defaults, name))
  return Object.fromEntries(gone.map(name => [name, defaults[name]]))
}

const TEST_FIELDS = [
  'task',
  'taskId',
  'parameters',
  'timeout',
  'grace',
  'priority',
  'concurrency',
  'rateLimit',
  'resources',
  'runsOn',
  'delivery',
  'resultLocation',
  'userId',
] as const

/** Returns a new job that runs once, at once, with the task of this one. The schedule of this job does not change. */
export function testJobOf(document: JobDocument): JobDocument {
  const kept = TEST_FIELDS.filter(name => document[name] !== undefined).map(name => [name, document[name]])
  const name = typeof document.name === 'string' && document.name !== '' ? document.name : 'job'
  return {
    name: `${name.slice(0, 180)} (test)`,
    ...Object.fromEntries(kept),
    schedule: { type: 'immediate' },
    retry: { maxRetries: 0 },
    tags: ['test'],
  }
}

export function isWorkflow(document: JobDocument): boolean {
  return valueAt(document, '/task/kind') === 'workflow'
}
