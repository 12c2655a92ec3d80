import { api } from '@/api/client'
import type { JobRow, RecentRun } from '@/api/types'
import { type Batch, isJobEvent, isRunEvent, isRunsChanged, type RunEventData } from '@/events/types'
import { ListCache, PagedList } from '@/lib/paged-list'
import { isTerminal } from '@/lib/states'
import type { JobsSearch } from './search'

/** Pages are small, because each job contains its last twenty runs. */
const PAGE_SIZE = 50
const MAX_RECENT_RUNS = 20

const lists = new ListCache<JobRow>(key => {
  const search = JSON.parse(key) as JobsSearch
  return new PagedList<JobRow>(
    job => job.jobId,
    (cursor, signal) =>
      api.get('/v1/jobs', {
        query: {
          ...search,
          status: search.status?.join(','),
          include: 'recentRuns',
          limit: PAGE_SIZE,
          cursor: cursor ?? undefined,
        },
        signal,
      }),
  )
})

export function jobsList(search: JobsSearch): PagedList<JobRow> {
  return lists.get(JSON.stringify(search))
}

/**
 * Updates the recent runs and the next fires of the jobs that a batch of events names. Returns true if the list must be
 * fetched again.
 */
export function applyBatch(batch: Batch, list: PagedList<JobRow>): boolean {
  const changes = new Map<string, { data: RunEventData; time: string }[]>()
  let stale = batch.reset
  for (const event of batch.events) {
    if (isRunsChanged(event))
      stale ||= event.data.jobsTruncated || Object.keys(event.data.jobs).some(id => list.has(id))
    else if (isJobEvent(event)) stale = true
    else if (isRunEvent(event) && event.data.jobId !== undefined && list.has(event.data.jobId)) {
      const change = { data: event.data, time: event.time }
      const before = changes.get(event.data.jobId)
      if (before === undefined) changes.set(event.data.jobId, [change])
      else before.push(change)
      // After a skipped fire, only the server knows the next fire, so the list must be fetched again.
      stale ||= event.type === 'timeball.run.skipped'
    }
  }
  list.patch(changes.keys(), (job, id) => {
    const all = changes.get(id) ?? []
    const planned = all.findLast(change => change.data.status === 'scheduled')?.data.fireTime
    return {
      ...job,
      nextFireAt: planned ?? job.nextFireAt,
      recentRuns: all.reduce((runs, change) => withRun(runs, change.data, change.time), job.recentRuns ?? []),
    }
  })
  return stale
}

/** Adds a run to the recent runs of a job, or replaces its old state. The newest run is the first. */
export function withRun(runs: readonly RecentRun[], data: RunEventData, time: string): RecentRun[] {
  const status = data.status
  if (status === undefined || status === 'scheduled') return [...runs]
  const known = runs.find(run => run.runId === data.runId)
  const next: RecentRun = {
    runId: data.runId,
    status,
    fireTime: data.fireTime ?? known?.fireTime ?? time,
    startedAt: known?.startedAt ?? (status === 'running' ? time : null),
    endedAt: isTerminal(status) ? (known?.endedAt ?? time) : null,
    lateMs: data.lateMs ?? known?.lateMs ?? null,
  }
  if (known !== undefined) return runs.map(run => (run === known ? next : run))
  return [next, ...runs].slice(0, MAX_RECENT_RUNS)
}
