/** Converts the changes of a user in the spec of a run to the `edit` of an API request. */

type Json = Record<string, unknown>

/** The fields of a spec that an edit may change. */
const EDITABLE = ['parameters', 'task', 'taskId', 'timeout', 'grace', 'retry'] as const

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, at) => equal(item, b[at]))
  if (!isObject(a) || !isObject(b)) return false
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].every(name => Object.hasOwn(a, name) && Object.hasOwn(b, name) && equal(a[name], b[name]))
}

export function editableOf(spec: object): Json {
  const given = spec as Json
  return Object.fromEntries(EDITABLE.filter(name => given[name] !== undefined).map(name => [name, given[name]]))
}

/** Returns the fields that differ. The server merges parameters and retry rules by name; null removes a parameter. */
export function editOf(before: Json, after: Json): { edit: Json; changed: string[] } | { error: string } {
  const unknown = Object.keys(after).filter(name => !(EDITABLE as readonly string[]).includes(name))
  if (unknown.length > 0) return { error: `Only ${EDITABLE.join(', ')} can be changed, not ${unknown.join(', ')}.` }
  const edit: Json = {}
  const changed: string[] = []
  for (const name of EDITABLE) {
    const [old, next] = [before[name], after[name]]
    if (equal(old, next)) continue
    if (name === 'parameters' || name === 'retry') {
      const part = partsOf(isObject(old) ? old : {}, isObject(next) ? next : {}, name === 'parameters')
      edit[name] = part
      changed.push(...Object.keys(part).map(key => `${name}.${key}`))
    } else if (next !== undefined) {
      edit[name] = next
      changed.push(name)
    } else if (name === 'timeout' || name === 'grace') {
      edit[name] = null
      changed.push(name)
    }
  }
  return { edit, changed }
}

function partsOf(before: Json, after: Json, removes: boolean): Json {
  const part: Json = {}
  for (const [name, value] of Object.entries(after)) if (!equal(before[name], value)) part[name] = value
  if (removes) for (const name of Object.keys(before)) if (!Object.hasOwn(after, name)) part[name] = null
  return part
}

export function readEdit(before: Json, text: string): { edit: Json; changed: string[] } | { error: string } {
  try {
    const after: unknown = JSON.parse(text)
    return isObject(after) ? editOf(before, after) : { error: 'Write a JSON object: { … }.' }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}
