import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { Job } from '@/api/types'
import { CopyId } from '@/components/copy'
import { JsonView } from '@/components/json-view'
import { EmptyState, ErrorNotice, Loaded, Skeleton, SkeletonRows } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { Countdown, RelativeTime } from '@/components/time'
import { PageHead, Section } from '@/layout/page'
import { serverNow } from '@/lib/clock'
import { Icon } from '@/ui/icon'
import { TabPanel, Tabs } from '@/ui/tabs'
import { JobActions } from './actions'
import { LedgerTab } from './ledger/tab'
import { DurationChart, JobWhySection, NextFires, WordsSection } from './overview'
import { RecentRuns, RunsTab } from './runs-tab'
import { readSearch, type Tab } from './search'
import { VersionsTab } from './versions/tab'

const route = getRouteApi('/shell/jobs/$jobId')

const TABS: readonly { value: Tab; label: string }[] = [
  { value: 'overview', label: 'Overview' },
  { value: 'runs', label: 'Runs' },
  { value: 'ledger', label: 'Ledger' },
  { value: 'definition', label: 'JSON' },
  { value: 'versions', label: 'Versions' },
]

/** The page of one job: its definition in words, its coming fires, its runs, and its ledger. */
export function Page() {
  const { jobId } = route.useParams()
  const query = useQuery({
    queryKey: keys.job(jobId),
    queryFn: ({ signal }) => api.get('/v1/jobs/{jobId}', { path: { jobId }, signal }),
  })
  if (query.data !== undefined) return <JobPage key={jobId} job={query.data} />
  if (query.error instanceof ApiError && query.error.status === 404)
    return (
      <EmptyState icon="search" title="There is no such job" command="timeball jobs list">
        It may have been removed by retention, or the address is wrong.
      </EmptyState>
    )
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} className="m-6" />
  return (
    <div className="grid gap-4 px-4 py-4 lg:px-6">
      <Skeleton className="h-7 w-64" />
      <Skeleton className="h-5 w-96 max-w-full" />
      <Skeleton className="h-96 w-full rounded-lg" />
    </div>
  )
}

function JobPage({ job }: { job: Job }) {
  const { jobId } = job
  const search = readSearch(route.useSearch())
  const navigate = route.useNavigate()
  const [now] = useState(serverNow)
  const runs = useQuery({
    queryKey: keys.job(jobId, 'runs'),
    queryFn: ({ signal }) => api.get('/v1/jobs/{jobId}/runs', { path: { jobId }, query: { limit: 200 }, signal }),
    enabled: search.tab === 'overview' || search.tab === 'runs',
  })
  return (
    <>
      <PageHead
        name={job.name === '' ? jobId : job.name}
        title={<span className="bidi-plain line-clamp-3">{job.name === '' ? jobId : job.name}</span>}
        actions={<JobActions job={job} />}
      >
        <Summary job={job} />
      </PageHead>
      <div className="flex min-h-0 flex-1 flex-col px-4 lg:px-6">
        <Tabs
          label="Parts of the job"
          value={search.tab}
          tabs={TABS}
          onChange={tab => void navigate({ search: tab === 'overview' ? {} : { tab }, replace: true })}
        >
          <TabPanel value="overview" className="py-4">
            <div className="grid gap-4 xl:grid-cols-[minmax(0,1fr)_minmax(20rem,26rem)]">
              <div className="grid min-w-0 content-start gap-4">
                <Loaded query={runs} skeleton={<Skeleton className="h-60 w-full rounded-lg" />}>
                  {page => <DurationChart runs={page.items} />}
                </Loaded>
                <WordsSection job={job} />
                <Section title="Last runs">
                  <Loaded query={runs} skeleton={<SkeletonRows rows={8} />}>
                    {page => <RecentRuns jobId={jobId} runs={page.items.slice(0, 10)} />}
                  </Loaded>
                </Section>
              </div>
              <div className="grid min-w-0 content-start gap-4">
                <NextFires job={job} />
                <JobWhySection job={job} />
              </div>
            </div>
          </TabPanel>
          <TabPanel value="runs" className="-mx-4 flex min-h-96 flex-1 flex-col lg:-mx-6">
            <Loaded query={runs}>{page => <RunsTab jobId={jobId} runs={page.items} />}</Loaded>
          </TabPanel>
          <TabPanel value="ledger" className="py-4">
            <LedgerTab
              jobId={jobId}
              place={search.place ?? { level: 'month', at: now }}
              onPlace={place =>
                void navigate({
                  search: { tab: 'ledger', period: place.level, at: new Date(place.at).toISOString() },
                })
              }
            />
          </TabPanel>
          <TabPanel value="definition" className="py-4">
            <JsonView value={job} maxLines={1000} />
          </TabPanel>
          <TabPanel value="versions" className="py-4">
            <VersionsTab
              jobId={jobId}
              chosen={search.version}
              onChoose={version =>
                void navigate({ search: { tab: 'versions', version: String(version) }, replace: true })
              }
            />
          </TabPanel>
        </Tabs>
      </div>
    </>
  )
}

const MAX_TAGS = 12

function Summary({ job }: { job: Job }) {
  return (
    <div className="grid gap-2">
      <div className="flex flex-wrap items-center gap-x-5 gap-y-1 text-ink-2 text-sm">
        <StateBadge job={job.status} className="font-medium text-ink" />
        {job.status === 'scheduled' && job.nextFireAt !== null && (
          <span>
            next fire <Countdown at={job.nextFireAt} className="font-medium text-ink" />
          </span>
        )}
        <span>
          version {job.version}, changed <RelativeTime at={job.updatedAt} />
        </span>
        <CopyId id={job.jobId} className="text-ink-3" />
        {job.task?.kind === 'workflow' && (
          <Link to="/workflows/$workflowId" params={{ workflowId: job.jobId }} className="text-accent hover:underline">
            Open as a workflow
          </Link>
        )}
        {job.tags.length > 0 && (
          <span className="flex min-w-0 flex-wrap gap-1">
            {job.tags.slice(0, MAX_TAGS).map(tag => (
              <Link
                key={tag}
                to="/jobs"
                search={{ tag: [tag] } as never}
                className="bidi-plain max-w-48 truncate rounded-sm bg-sunken px-1.5 text-ink-2 text-xs hover:text-accent"
              >
                {tag}
              </Link>
            ))}
            {job.tags.length > MAX_TAGS && <span className="text-ink-3 text-xs">+{job.tags.length - MAX_TAGS}</span>}
          </span>
        )}
      </div>
      {job.status === 'paused' && (
        <p className="flex items-start gap-2 rounded-md bg-late-soft px-3 py-2 text-sm">
          <Icon name="state-paused" className="mt-0.5 shrink-0 text-late" />
          <span className="bidi-plain min-w-0 [overflow-wrap:anywhere]">
            Paused{job.pauseReason === undefined || job.pauseReason === '' ? '' : `: ${job.pauseReason}`}
            {job.pausedUntil !== undefined && job.pausedUntil !== null && (
              <>
                {' '}
                · resumes <RelativeTime at={job.pausedUntil} />
              </>
            )}
          </span>
        </p>
      )}
    </div>
  )
}
