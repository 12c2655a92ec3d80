import type { RunStatus } from '@/api/types'

export type RunEventData = {
  runId: string
  jobId?: string
  jobName?: string
  status?: RunStatus
  attempt?: number
  fireTime?: string
  tags?: string[]
  kind?: string
  workerId?: string
  lateMs?: number
}

/** A summary of the changes in 250 ms, sent when too many runs changed to name each one. */
export type RunsChangedData = {
  count: number
  statuses: Partial<Record<RunStatus, number>>
  jobs: Record<string, Partial<Record<RunStatus, number>>>
  jobsTruncated: boolean
  runs: string[]
  tags: Record<string, Partial<Record<RunStatus, number>>>
}

/** An event as the server sends it (CloudEvents). The type of `data` depends on `type`: use the guards below. */
export type TimeballEvent = { id: string; type: string; subject: string | null; time: string; data: unknown }

/** A batch of events for a tab. `reset` means that events are missing and all data must be fetched again. */
export type Batch = { events: TimeballEvent[]; reset: boolean }

/**
 * - `live`: events arrive
 * - `waiting`: no connection; the next try follows by itself
 * - `polling`: the server sends no events; pages are read again every few seconds
 * - `denied`: signed out
 */
export type StreamState = 'connecting' | 'live' | 'waiting' | 'polling' | 'denied'

export function isRunEvent(event: TimeballEvent): event is TimeballEvent & { data: RunEventData } {
  return event.type.startsWith('timeball.run.')
}

export function isRunsChanged(event: TimeballEvent): event is TimeballEvent & { data: RunsChangedData } {
  return event.type === 'timeball.runs.changed'
}

export function isJobEvent(event: TimeballEvent): event is TimeballEvent & { data: { jobId: string; name?: string } } {
  return event.type.startsWith('timeball.job.')
}

export function isWorkerEvent(event: TimeballEvent): boolean {
  return event.type.startsWith('timeball.worker.')
}
