import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { Run } from '@/api/types'
import { EmptyState, ErrorNotice, Skeleton } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { Duration, RelativeTime, Time } from '@/components/time'
import { PageHead } from '@/layout/page'
import { isTerminal } from '@/lib/states'
import { duration } from '@/lib/time'
import { RunActions } from './actions'
import { ErrorSection, FactsSection, SpecSections, WhySection } from './details'
import { LogPanel } from './log/panel'
import { TimelineSection } from './timeline-view'

const route = getRouteApi('/shell/runs/$runId')

/** The page of one run: its timeline, output, explanation and definition. */
export function Page() {
  const { runId } = route.useParams()
  const query = useQuery({
    queryKey: keys.run(runId),
    queryFn: ({ signal }) => api.get('/v1/runs/{runId}', { path: { runId }, signal }),
    // Events refresh the run. A live run is also fetched every 15 s, in case events are missing.
    refetchInterval: found => (found.state.data === undefined || isTerminal(found.state.data.status) ? false : 15_000),
  })
  if (query.data !== undefined) return <RunPage run={query.data} />
  if (query.error instanceof ApiError && query.error.status === 404)
    return (
      <EmptyState icon="search" title="There is no such run" command={`timeball runs show ${runId}`}>
        It may have been removed by retention, or the address is wrong.
      </EmptyState>
    )
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} className="m-6" />
  return <RunSkeleton />
}

function RunPage({ run }: { run: Run }) {
  return (
    <>
      <PageHead
        name={`${run.jobName} run`}
        title={
          <Link to="/jobs/$jobId" params={{ jobId: run.jobId }} className="bidi-plain line-clamp-3 hover:underline">
            {run.jobName === '' ? run.jobId : run.jobName}
          </Link>
        }
        actions={<RunActions key={run.runId} run={run} />}
      >
        <Summary run={run} />
      </PageHead>
      <div className="print-flow grid gap-4 px-4 pb-6 lg:px-6 xl:grid-cols-[minmax(0,1fr)_minmax(20rem,26rem)] 3xl:grid-cols-[minmax(0,1fr)_34rem]">
        <div className="grid min-w-0 content-start gap-4">
          <ErrorSection run={run} />
          <TimelineSection run={run} />
          <LogPanel key={run.runId} run={run} />
        </div>
        <div className="grid min-w-0 content-start gap-4">
          <WhySection run={run} />
          <FactsSection run={run} />
          <SpecSections run={run} />
        </div>
      </div>
    </>
  )
}

/** The summary of a run in one line: status, due time, lateness and duration. */
function Summary({ run }: { run: Run }) {
  return (
    <div className="flex flex-wrap items-center gap-x-5 gap-y-1 text-ink-2 text-sm">
      <StateBadge run={run.status} className="font-medium text-ink" />
      <span>
        due <Time at={run.dueAt ?? run.fireTime} className="text-ink" />{' '}
        <RelativeTime at={run.dueAt ?? run.fireTime} className="text-ink-3" />
      </span>
      {run.lateMs !== null && (
        <span>
          started <span className="text-ink">{duration(run.lateMs)}</span> late
        </span>
      )}
      {run.startTime !== null && (
        <span>
          {run.endTime === null ? 'runs for' : 'took'}{' '}
          <Duration from={run.startTime} to={run.endTime} className="text-ink" />
        </span>
      )}
      {run.attempt > 1 && <span>attempt {run.attempt}</span>}
      {run.progress !== null && !isTerminal(run.status) && (
        <span className="bidi-plain">
          {run.progress} {run.progressNote}
        </span>
      )}
      {run.archived === true && <span>archived</span>}
    </div>
  )
}

function RunSkeleton() {
  return (
    <div className="grid gap-4 px-4 py-4 lg:px-6">
      <Skeleton className="h-7 w-64" />
      <Skeleton className="h-5 w-96 max-w-full" />
      <Skeleton className="h-56 w-full rounded-lg" />
      <Skeleton className="h-96 w-full rounded-lg" />
    </div>
  )
}
