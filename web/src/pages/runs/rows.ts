import { request } from '@/api/client'
import type { Origin, Page, Run, RunStatus, Verdict } from '@/api/types'
import { type Batch, isRunEvent, isRunsChanged, type RunEventData } from '@/events/types'
import { serverNow } from '@/lib/clock'
import { ListCache, PagedList } from '@/lib/paged-list'
import { resolveTime } from '@/lib/range'
import { isTerminal } from '@/lib/states'
import { instant } from '@/lib/time'
import type { RunsSearch } from './search'

/** A run in the list. It has fewer fields than the API returns, because the list may have 100,000 rows. */
export type RunRow = {
  runId: string
  jobId: string
  jobName: string
  status: RunStatus
  verdict: Verdict
  origin: Origin
  attempt: number
  fire: number
  start: number | null
  end: number | null
  lateMs: number | null
  /** The error, the progress, or the reason why the run was not executed. */
  note: string
  cancelling: boolean
}

const MAX_NOTE_LENGTH = 160

export function rowOf(run: Run): RunRow {
  return {
    runId: run.runId,
    jobId: run.jobId,
    jobName: run.jobName,
    status: run.status,
    verdict: run.verdict,
    origin: run.origin,
    attempt: run.attempt,
    fire: instant(run.fireTime) ?? 0,
    start: instant(run.startTime),
    end: instant(run.endTime),
    lateMs: run.lateMs,
    note: noteOf(run),
    cancelling: run.cancelRequestedAt !== null && !isTerminal(run.status),
  }
}

function noteOf(run: Run): string {
  if (run.status === 'running')
    return [run.progress, run.progressNote].filter(Boolean).join(' ').slice(0, MAX_NOTE_LENGTH)
  if (run.status === 'succeeded') return ''
  return (run.error?.message ?? run.reason).slice(0, MAX_NOTE_LENGTH)
}

/** Returns the filter for the API, with relative times converted to instants. */
export function apiFilter(search: RunsSearch): Record<string, string | string[]> {
  const now = serverNow()
  const values = { ...search, startTime: resolveTime(search.startTime, now), endTime: resolveTime(search.endTime, now) }
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Record<
    string,
    string | string[]
  >
}

/** Returns the filter for an action. Without any field, it must state that it selects all runs. */
export function bulkFilter(search: RunsSearch): Record<string, unknown> {
  const filter = apiFilter(search)
  return Object.keys(filter).length === 0 ? { all: true } : filter
}

const FIRST_PAGE_SIZE = 100
const PAGE_SIZE = 500

const lists = new ListCache<RunRow>(key => {
  const search = JSON.parse(key) as RunsSearch
  return new PagedList<RunRow>(
    row => row.runId,
    async (cursor, signal) => {
      const query = { ...apiFilter(search), limit: cursor === null ? FIRST_PAGE_SIZE : PAGE_SIZE, cursor }
      const page = await request<Page<Run>>('GET', '/v1/runs', { query, signal })
      return { items: page.items.map(rowOf), nextCursor: page.nextCursor }
    },
  )
})

export function runsList(search: RunsSearch): PagedList<RunRow> {
  return lists.get(JSON.stringify(search))
}

/** Updates the rows of the runs that a batch of events names. Returns true if the list must be fetched again. */
export function applyBatch(batch: Batch, list: PagedList<RunRow>): boolean {
  const changes = new Map<string, { data: RunEventData; at: number }[]>()
  let stale = batch.reset
  for (const event of batch.events) {
    if (isRunsChanged(event)) stale = true
    if (!isRunEvent(event) || event.data.status === undefined) continue
    const { runId } = event.data
    if (!list.has(runId)) stale = true
    else {
      const change = { data: event.data, at: instant(event.time) ?? serverNow() }
      const before = changes.get(runId)
      if (before === undefined) changes.set(runId, [change])
      else before.push(change)
    }
  }
  list.patch(changes.keys(), (row, id) =>
    (changes.get(id) ?? []).reduce((now, change) => changed(now, change.data, change.at), row),
  )
  return stale
}

export function changed(row: RunRow, data: RunEventData, at: number): RunRow {
  const status = data.status ?? row.status
  const lateMs = data.lateMs ?? row.lateMs
  const began = row.start ?? (status === 'running' ? (data.lateMs === undefined ? at : row.fire + data.lateMs) : null)
  return {
    ...row,
    status,
    attempt: data.attempt ?? row.attempt,
    start: began,
    end: isTerminal(status) ? (row.end ?? at) : null,
    lateMs,
    verdict: row.verdict === 'open' && began !== null ? ((lateMs ?? 0) > 2000 ? 'late' : 'on_time') : row.verdict,
    note: status === row.status ? row.note : '',
    cancelling: row.cancelling && !isTerminal(status),
  }
}
