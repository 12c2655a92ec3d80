import type { JobStatus, RunStatus, Verdict } from '@/api/types'
import type { IconName } from '@/ui/icon'

/** The label, icon and colour of each state, on every page. The outlines of the icons differ. */
export type StateLook = { label: string; icon: IconName; tone: Tone; meaning: string }

/** Names of colours in styles.css. */
export type Tone = 'ok' | 'live' | 'late' | 'bad' | 'dead' | 'missed' | 'idle'

export const TONE_TEXT: Record<Tone, string> = {
  ok: 'text-ok',
  live: 'text-live',
  late: 'text-late',
  bad: 'text-bad',
  dead: 'text-dead',
  missed: 'text-missed',
  idle: 'text-idle',
}

export const TONE_FILL: Record<Tone, string> = {
  ok: 'bg-ok',
  live: 'bg-live',
  late: 'bg-late',
  bad: 'bg-bad',
  dead: 'bg-dead',
  missed: 'bg-missed',
  idle: 'bg-idle',
}

export const RUN_STATES: Record<RunStatus, StateLook> = {
  scheduled: { label: 'Scheduled', icon: 'state-clock', tone: 'idle', meaning: 'Its time has not come.' },
  blocked: {
    label: 'Blocked',
    icon: 'state-lock',
    tone: 'idle',
    meaning: 'It waits for another run, a key or a dependency.',
  },
  queued: { label: 'Queued', icon: 'state-queue', tone: 'live', meaning: 'It is due, and waits for a free slot.' },
  running: { label: 'Running', icon: 'state-running', tone: 'live', meaning: 'A worker executes it.' },
  retrying: {
    label: 'Retrying',
    icon: 'state-retry',
    tone: 'late',
    meaning: 'An attempt failed; the next one is planned.',
  },
  succeeded: { label: 'Succeeded', icon: 'state-ok', tone: 'ok', meaning: 'It ended well.' },
  failed: { label: 'Failed', icon: 'state-bad', tone: 'bad', meaning: 'It failed, and its policy allows no retry.' },
  dead: {
    label: 'Dead',
    icon: 'state-dead',
    tone: 'dead',
    meaning: 'Its retries are used up. It waits in the dead letters.',
  },
  cancelled: { label: 'Cancelled', icon: 'state-cancelled', tone: 'idle', meaning: 'It was cancelled.' },
  skipped: { label: 'Skipped', icon: 'state-skipped', tone: 'idle', meaning: 'A rule of the job said not to run it.' },
}

export const RUN_STATUSES = Object.keys(RUN_STATES) as RunStatus[]
export const LIVE_STATUSES: readonly RunStatus[] = ['scheduled', 'blocked', 'queued', 'running', 'retrying']

export function isTerminal(status: RunStatus): boolean {
  return !LIVE_STATUSES.includes(status)
}

export const VERDICTS: Record<Verdict, StateLook> = {
  open: { label: 'Open', icon: 'state-clock', tone: 'idle', meaning: 'Not decided yet.' },
  on_time: { label: 'On time', icon: 'state-ok', tone: 'ok', meaning: 'It started within two seconds of its time.' },
  late: {
    label: 'Late',
    icon: 'state-late',
    tone: 'late',
    meaning: 'It started more than two seconds after its time.',
  },
  caught_up: { label: 'Caught up', icon: 'state-caught', tone: 'late', meaning: 'It ran after an outage or a pause.' },
  skipped: { label: 'Skipped', icon: 'state-skipped', tone: 'idle', meaning: 'A rule of the job said not to run it.' },
  missed: { label: 'Missed', icon: 'state-missed', tone: 'missed', meaning: 'It was due and did not run.' },
  cancelled: { label: 'Cancelled', icon: 'state-cancelled', tone: 'idle', meaning: 'It was cancelled.' },
}

export const JOB_STATES: Record<JobStatus, StateLook> = {
  scheduled: { label: 'Scheduled', icon: 'state-clock', tone: 'live', meaning: 'It fires as its schedule says.' },
  paused: { label: 'Paused', icon: 'state-paused', tone: 'late', meaning: 'It does not fire until it is resumed.' },
  completed: { label: 'Completed', icon: 'state-done', tone: 'ok', meaning: 'Its schedule has no more fires.' },
  cancelled: { label: 'Cancelled', icon: 'state-cancelled', tone: 'idle', meaning: 'It was cancelled.' },
}

export type WorkerState = 'live' | 'draining' | 'drained' | 'lost' | 'left'

export const WORKER_STATES: Record<WorkerState, StateLook> = {
  live: { label: 'Live', icon: 'state-ok', tone: 'ok', meaning: 'Its beats arrive.' },
  draining: {
    label: 'Draining',
    icon: 'state-drain',
    tone: 'late',
    meaning: 'It takes no new runs, and leaves when its runs have ended.',
  },
  drained: {
    label: 'Drained',
    icon: 'state-done',
    tone: 'idle',
    meaning: 'It was ordered to drain, finished its runs and left.',
  },
  lost: { label: 'Lost', icon: 'state-lost', tone: 'bad', meaning: 'Its beats stopped, and its lease ran out.' },
  left: { label: 'Left', icon: 'state-cancelled', tone: 'idle', meaning: 'It was stopped, and said goodbye.' },
}

/**
 * The kinds of marks in the now line, each with its own colour. The kind follows from the verdict, or from the status
 * if the run failed.
 */
export type Mark = 'on_time' | 'late' | 'failed' | 'skipped' | 'missed' | 'running' | 'waiting'

export const MARKS: Record<Mark, StateLook> = {
  on_time: VERDICTS.on_time,
  late: VERDICTS.late,
  failed: { ...RUN_STATES.failed, meaning: 'It failed or died.' },
  skipped: VERDICTS.skipped,
  missed: VERDICTS.missed,
  running: RUN_STATES.running,
  waiting: {
    label: 'Waiting',
    icon: 'state-queue',
    tone: 'idle',
    meaning: 'It is due and has not started, or waits for its next attempt.',
  },
}

export const MARK_NAMES = Object.keys(MARKS) as Mark[]

export function markOf(run: {
  status: RunStatus
  verdict?: Verdict | undefined
  lateMs?: number | null | undefined
}): Mark {
  if (run.status === 'failed' || run.status === 'dead') return 'failed'
  if (run.status === 'skipped' || run.status === 'cancelled') return run.verdict === 'missed' ? 'missed' : 'skipped'
  if (run.verdict === 'missed') return 'missed'
  if (!isTerminal(run.status)) return run.status === 'running' ? 'running' : 'waiting'
  if (run.verdict === 'late' || run.verdict === 'caught_up' || (run.lateMs ?? 0) > 2000) return 'late'
  return 'on_time'
}
