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

/** A summary of 250 ms in which so many runs changed that they are not named one by one. */
export type RunsChangedData = {
  count: number
  statuses: Partial<Record<RunStatus, number>>
  jobs: Record<string, Partial<Record<RunStatus, number>>>
  jobsTruncated: boolean
  runs: string[]
  tags: Record<string, Partial<Record<RunStatus, number>>>
}

/** An event as the server sends it (CloudEvents). `data` depends on the type: use the guards below. */
export type TimeballEvent = { id: string; type: string; subject: string | null; time: string; data: unknown }

/** What a tab gets: some events, or the news that events are missing and everything has to be read again. */
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
