import type { Run } from '@/api/types'
import { isTerminal } from '@/lib/states'
import { instant } from '@/lib/time'

/**
 * Computes the segments and the steps of a run from its fire to its end. Pure functions: the caller passes the current
 * time.
 */

export type SegmentKind = 'scheduler' | 'blocked' | 'queue' | 'worker' | 'waiting' | 'attempt' | 'between'

export type Segment = {
  kind: SegmentKind
  from: number
  /** The end of the segment, or the current time if it has not ended. */
  to: number
  running: boolean
  attempt: number | null
  failed: boolean
}

export type Step = {
  id: string
  label: string
  at: number
  detail: string
  tone: 'idle' | 'live' | 'ok' | 'bad' | 'late'
  /** Milliseconds since the previous step; null for the first one. */
  after: number | null
}

export type RunTimeline = { from: number; to: number; segments: Segment[]; steps: Step[] }

export const PARTS = ['scheduler', 'blocked', 'queue', 'worker'] as const
export type Part = (typeof PARTS)[number]

export const PART_TEXT: Record<Part, { label: string; meaning: string }> = {
  scheduler: { label: 'Scheduler', meaning: 'From the due time until the scheduler had made the run ready.' },
  blocked: { label: 'Blocked', meaning: 'Held back by a limit, an ordering key, an overlap rule or a dependency.' },
  queue: { label: 'Queue', meaning: 'Ready, waiting for a worker with a free slot.' },
  worker: { label: 'Worker', meaning: 'Claimed by a worker, until it started.' },
}

export type LatenessPart = { part: Part; ms: number; share: number }

/** Returns the parts of the delay before the start of a run. Their sum is the total. */
export function latenessParts(run: Run): { total: number; parts: LatenessPart[] } | null {
  const lateness = run.lateness
  if (lateness === null || lateness === undefined) return null
  const total = lateness.totalMs
  const values: Record<Part, number> = {
    scheduler: lateness.schedulerMs,
    blocked: lateness.blockedMs,
    queue: lateness.queueMs,
    worker: lateness.workerMs,
  }
  const sum = PARTS.reduce((all, part) => all + Math.max(0, values[part]), 0)
  return {
    total,
    parts: PARTS.map(part => ({
      part,
      ms: values[part],
      share: sum === 0 ? 0 : Math.max(0, values[part]) / sum,
    })),
  }
}

type Attempt = { attempt: number; from: number; to: number | null; error: string | null; worker: string | null }

function attemptsOf(run: Run): Attempt[] {
  const found = (run.attempts ?? []).flatMap((item): Attempt[] => {
    const from = instant(item.startTime)
    if (from === null) return []
    return [
      {
        attempt: item.attempt,
        from,
        to: instant(item.endTime),
        error: item.error?.message ?? null,
        worker: item.executorId,
      },
    ]
  })
  const start = instant(run.startTime)
  if (found.length > 0 || start === null) return found
  // An archived run and a run of a list have no attempts. One attempt is made from the times of the run.
  const error = run.error?.message ?? null
  return [{ attempt: run.attempt, from: start, to: instant(run.endTime), error, worker: run.executorId }]
}

export function timelineOf(run: Run, now: number): RunTimeline {
  const due = instant(run.dueAt) ?? instant(run.fireTime) ?? now
  const attempts = attemptsOf(run)
  const end = instant(run.endTime)
  const segments = [
    ...waitSegments(run, due, attempts[0]?.from ?? null, end ?? now),
    ...attemptSegments(run, attempts, now),
  ]
  const last = end ?? Math.max(now, ...segments.map(segment => segment.to))
  const steps = stepsOf(run, due, attempts, end)
  return { from: due, to: Math.max(last, due), segments, steps }
}

/**
 * Returns the segments from the due time to the first start: the parts of the lateness, or one segment if the run has
 * not started.
 */
function waitSegments(run: Run, due: number, start: number | null, until: number): Segment[] {
  const segment = (kind: SegmentKind, from: number, to: number, running = false): Segment => ({
    kind,
    from,
    to,
    running,
    attempt: null,
    failed: false,
  })
  if (start === null) return until > due ? [segment('waiting', due, until, !isTerminal(run.status))] : []
  const lateness = latenessParts(run)
  if (lateness === null) return start > due ? [segment('waiting', due, start)] : []
  let at = due
  const found: Segment[] = []
  for (const { part, ms } of lateness.parts) {
    if (ms <= 0) continue
    found.push(segment(part, at, Math.min(at + ms, start)))
    at = Math.min(at + ms, start)
  }
  return found
}

function attemptSegments(run: Run, attempts: readonly Attempt[], now: number): Segment[] {
  const found: Segment[] = []
  attempts.forEach((item, index) => {
    const before = attempts[index - 1]
    if (before !== undefined && before.to !== null && item.from > before.to)
      found.push({ kind: 'between', from: before.to, to: item.from, running: false, attempt: null, failed: false })
    const running = item.to === null && !isTerminal(run.status)
    found.push({
      kind: 'attempt',
      from: item.from,
      to: Math.max(item.from, item.to ?? (running ? now : (instant(run.endTime) ?? now))),
      running,
      attempt: item.attempt,
      failed: item.error !== null,
    })
  })
  const last = attempts.at(-1)
  if (last?.to != null && !isTerminal(run.status) && now > last.to)
    found.push({ kind: 'between', from: last.to, to: now, running: true, attempt: null, failed: false })
  return found
}

const END_TONE: Partial<Record<Run['status'], Step['tone']>> = { succeeded: 'ok', failed: 'bad', dead: 'bad' }

function stepsOf(run: Run, due: number, attempts: readonly Attempt[], end: number | null): Step[] {
  const steps: Omit<Step, 'after'>[] = []
  const add = (id: string, label: string, at: number | null, detail = '', tone: Step['tone'] = 'idle') => {
    if (at !== null) steps.push({ id, label, at, detail, tone })
  }
  const fire = instant(run.fireTime)
  add('created', run.origin === 'schedule' ? 'Planned' : 'Created', instant(run.createdAt), originText(run))
  if (run.dueAt !== undefined && instant(run.dueAt) !== fire) add('fire', 'Scheduled for', fire)
  add('due', 'Due', due)
  const start = attempts[0]?.from ?? null
  const worker = run.lateness?.workerMs ?? null
  if (start !== null && worker !== null)
    add('claimed', 'Claimed', Math.max(due, start - worker), attempts[0]?.worker ?? '')
  attempts.forEach((item, index) => {
    const name = attempts.length > 1 ? `Attempt ${item.attempt} started` : 'Started'
    add(`start-${index}`, name, item.from, index === 0 ? '' : (item.worker ?? ''), 'live')
    const isLast = index === attempts.length - 1
    if (item.to !== null && item.error !== null && !(isLast && end !== null))
      add(`end-${index}`, `Attempt ${item.attempt} failed`, item.to, item.error, 'bad')
  })
  for (const [index, item] of (run.preemptions ?? []).entries()) {
    add(`preempted-${index}`, 'Paused for another run', instant(item.pausedAt), item.by, 'late')
    add(`resumed-${index}`, 'Continued', instant(item.resumedAt), '', 'live')
  }
  add('cancel', 'Cancel requested', instant(run.cancelRequestedAt), run.cancelReason ?? '', 'late')
  add('end', endLabel(run), end, run.error?.message ?? run.reason, END_TONE[run.status] ?? 'idle')
  const order = new Map(steps.map((step, index) => [step, index]))
  steps.sort((a, b) => a.at - b.at || (order.get(a) ?? 0) - (order.get(b) ?? 0))
  return steps.map((step, index) => {
    const before = steps[index - 1]
    return { ...step, after: before === undefined ? null : step.at - before.at }
  })
}

function endLabel(run: Run): string {
  return `${run.status.charAt(0).toUpperCase()}${run.status.slice(1)}`
}

const ORIGINS: Record<Run['origin'], string> = {
  schedule: 'by its schedule',
  catch_up: 'to catch up a fire of an outage or a pause',
  backfill: 'by a backfill',
  manual: 'by hand',
  replay: 'as a replay of another run',
  retry: 'as a retry of another run',
  task: 'as a task of a workflow',
}

export function originText(run: Run): string {
  return ORIGINS[run.origin]
}
