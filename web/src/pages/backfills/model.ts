import type { components } from '@/api/schema'
import type { StateLook } from '@/lib/states'
import { instant } from '@/lib/time'
import type { RunsSearch } from '@/pages/runs/search'

export type Backfill = components['schemas']['BackfillView']

const STATES: Record<Backfill['status'], StateLook> = {
  running: { label: 'Running', icon: 'state-running', tone: 'live', meaning: 'It creates runs, oldest fire first.' },
  paused: {
    label: 'Paused',
    icon: 'state-paused',
    tone: 'late',
    meaning: 'Its job is paused, so it creates no runs.',
  },
  completed: { label: 'Completed', icon: 'state-ok', tone: 'ok', meaning: 'Every fire of the range has run.' },
  cancelled: { label: 'Cancelled', icon: 'state-cancelled', tone: 'idle', meaning: 'It was cancelled.' },
}

const WITH_FAILURES: StateLook = {
  label: 'Failures',
  icon: 'state-bad',
  tone: 'bad',
  meaning: 'Every fire of the range has run, and some of the runs failed.',
}

export function lookOf(backfill: Pick<Backfill, 'status' | 'failed'>): StateLook {
  return backfill.status === 'completed' && backfill.failed > 0 ? WITH_FAILURES : STATES[backfill.status]
}

export function isOver(backfill: Pick<Backfill, 'status'>): boolean {
  return backfill.status === 'completed' || backfill.status === 'cancelled'
}

/** Returns the parts of the progress bar, from ended to live fires. Fires without a run have no part. */
export function partsOf(backfill: Backfill) {
  return [
    { name: 'succeeded', value: backfill.succeeded, fill: 'bg-ok' },
    { name: 'failed', value: backfill.failed, fill: 'bg-bad' },
    { name: 'cancelled', value: backfill.cancelled, fill: 'bg-idle' },
    { name: 'running', value: backfill.running, fill: 'bg-live' },
  ] as const
}

/**
 * Returns the text of the progress bar for screen readers and its tooltip: `12 of 40 fires done: 10 succeeded, 2
 * failed, 1 running`.
 */
export function progressText(backfill: Backfill): string {
  const parts = partsOf(backfill).filter(part => part.value > 0)
  const detail = parts.map(part => `${part.value.toLocaleString('en-US')} ${part.name}`).join(', ')
  const done = `${backfill.done.toLocaleString('en-US')} of ${backfill.total.toLocaleString('en-US')} fires done`
  return detail === '' ? done : `${done}: ${detail}`
}

const MIN_DONE_FOR_ESTIMATE = 3

/** Returns the estimated milliseconds until the end, from the mean speed; null while there is too little data. */
export function timeLeft(backfill: Backfill, now: number): number | null {
  const since = instant(backfill.createdAt)
  if (backfill.status !== 'running' || backfill.done < MIN_DONE_FOR_ESTIMATE || since === null || now <= since)
    return null
  return ((now - since) / backfill.done) * (backfill.total - backfill.done)
}

/**
 * Returns the filter that selects the runs of a backfill in the list of runs: the job, the origin, and the range of
 * fire times.
 */
export function runsFilter(backfill: Backfill, which: 'all' | 'failed' | 'live'): RunsSearch {
  return {
    jobId: backfill.jobId,
    origin: ['backfill'],
    startTime: backfill.from,
    endTime: backfill.to,
    ...(which === 'failed' ? { status: ['failed', 'dead'] } : {}),
    ...(which === 'live' ? { status: ['scheduled', 'blocked', 'queued', 'running', 'retrying'] } : {}),
  }
}
