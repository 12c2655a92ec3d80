import { isJobEvent, isRunEvent, isRunsChanged, isWorkerEvent, type TimeballEvent } from './types'

/** A prefix of the query keys that an event makes outdated, such as `['run', 'r_1']` or `['stats']`. */
export type Touch = readonly [string, ...string[]]

/** Events at which an attempt starts or ends, so that the used slots of a worker change. */
const TAKES_OR_FREES_SLOTS = new Set(
  ['started', 'retrying', 'succeeded', 'failed', 'dead', 'cancelled'].map(name => `timeball.run.${name}`),
)
const DEAD = new Set(['timeball.run.dead', 'timeball.run.failed', 'timeball.run.queued'])

/** Returns the prefixes of the cached answers that an event makes outdated. */
export function touchedBy(event: TimeballEvent): Touch[] {
  if (isRunEvent(event)) {
    const { runId, jobId } = event.data
    const touches: Touch[] = [['stats'], ['runs'], ['jobs'], ['run', runId], ['workflow-run'], ['backfills']]
    if (jobId !== undefined) touches.push(['job', jobId], ['workflow', jobId])
    if (DEAD.has(event.type)) touches.push(['dead-letters'])
    if (TAKES_OR_FREES_SLOTS.has(event.type)) touches.push(['workers'])
    return event.type === 'timeball.run.progress' ? [['run', runId], ['workflow-run']] : touches
  }
  if (isRunsChanged(event)) {
    const { runs, jobs, jobsTruncated, statuses } = event.data
    const touches: Touch[] = [['stats'], ['runs'], ['jobs'], ['workflow-run'], ['backfills'], ['workers']]
    // The event does not name every run, so all answers about single runs are fetched again.
    if (runs.length < event.data.count) touches.push(['run'])
    else touches.push(...runs.map((id): Touch => ['run', id]))
    if (jobsTruncated) touches.push(['job'], ['workflow'])
    else
      touches.push(
        ...Object.keys(jobs).flatMap((id): Touch[] => [
          ['job', id],
          ['workflow', id],
        ]),
      )
    if ((statuses.dead ?? 0) > 0 || (statuses.queued ?? 0) > 0) touches.push(['dead-letters'])
    return touches
  }
  if (isJobEvent(event)) {
    const { jobId } = event.data
    return [['jobs'], ['job', jobId], ['workflows'], ['workflow', jobId], ['stats'], ['timeline'], ['forecast']]
  }
  if (isWorkerEvent(event)) return [['workers'], ['stats']]
  return []
}

/** The words of all answers that events keep current. They are fetched again after a reset. */
export const LIVE_WORDS = [
  'stats',
  'timeline',
  'jobs',
  'job',
  'runs',
  'run',
  'workflows',
  'workflow',
  'workflow-run',
  'dead-letters',
  'backfills',
  'workers',
] as const

/** Returns the minimum time in milliseconds between two refreshes of the answers with this prefix. */
export function refreshPeriod(touch: Touch): number {
  if (touch[0] === 'stats') return 2000
  // The server needs one or two seconds for a forecast of many jobs.
  if (touch[0] === 'forecast') return 15_000
  if (touch[0] === 'run' || touch[0] === 'workflow-run') return 500
  return 1000
}
