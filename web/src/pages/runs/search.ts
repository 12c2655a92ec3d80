import type { Origin, RunStatus } from '@/api/types'
import { compact, list, text } from '@/lib/search'
import { RUN_STATUSES } from '@/lib/states'

export const ORIGINS = [
  'schedule',
  'catch_up',
  'manual',
  'retry',
  'replay',
  'backfill',
  'task',
] as const satisfies readonly Origin[]

export type RunsSearch = {
  status?: RunStatus[] | undefined
  origin?: Origin[] | undefined
  jobId?: string | undefined
  tag?: string | undefined
  userId?: string | undefined
  taskId?: string | undefined
  fingerprint?: string | undefined
  startTime?: string | undefined
  endTime?: string | undefined
}

/** Reads the filter from the search parameters of the address. They have the names of the API. */
export function runsSearch(raw: Record<string, unknown>): RunsSearch {
  return compact({
    status: list(raw, 'status', RUN_STATUSES),
    origin: list(raw, 'origin', ORIGINS),
    jobId: text(raw, 'jobId'),
    tag: text(raw, 'tag'),
    userId: text(raw, 'userId'),
    taskId: text(raw, 'taskId'),
    fingerprint: text(raw, 'fingerprint'),
    startTime: text(raw, 'startTime'),
    endTime: text(raw, 'endTime'),
  })
}
