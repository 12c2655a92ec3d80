import type { RunStatus } from '@/api/types'
import { RUN_STATES, type StateLook } from '@/lib/states'

/** The state of a task that waits for the tasks that it needs. It has no run yet, so it has no status of a run. */
const WAITING: StateLook = {
  label: 'Waiting',
  icon: 'state-clock',
  tone: 'idle',
  meaning: 'It waits for the tasks that it needs.',
}

export function taskLook(status: string): StateLook {
  if (status === 'waiting') return WAITING
  return Object.hasOwn(RUN_STATES, status)
    ? RUN_STATES[status as RunStatus]
    : { ...WAITING, label: status, meaning: '' }
}

const ENDED = ['succeeded', 'failed', 'dead', 'cancelled', 'skipped']

export function taskEnded(status: string): boolean {
  return ENDED.includes(status)
}

export function taskFailed(status: string): boolean {
  return status === 'failed' || status === 'dead' || status === 'cancelled'
}
