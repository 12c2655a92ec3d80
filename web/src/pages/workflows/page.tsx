import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { JobRow } from '@/api/types'
import { type Column, DataTable } from '@/components/data-table'
import { EmptyState, ErrorNotice, SkeletonRows } from '@/components/notices'
import { RunStrip } from '@/components/run-strip'
import { StateBadge, StateIcon } from '@/components/state'
import { Countdown } from '@/components/time'
import { PageHead } from '@/layout/page'
import { text } from '@/lib/search'
import { useShortcuts } from '@/lib/shortcuts'
import { Button } from '@/ui/button'
import { Input } from '@/ui/field'
import { ScheduleText } from '../jobs/schedule'

const route = getRouteApi('/shell/workflows')
const PAGE_SIZE = 50

/** The list of all workflows, with their next fires and last runs. */
export function Page() {
  const q = text(route.useSearch(), 'q')
  const setSearch = route.useNavigate()
  const navigate = useNavigate()
  const filter = {
    kind: 'workflow',
    include: 'recentRuns',
    limit: PAGE_SIZE,
    ...(q === undefined ? {} : { q }),
  } as const
  const query = useInfiniteQuery({
    queryKey: keys.jobs(filter),
    queryFn: ({ pageParam, signal }) =>
      api.get('/v1/jobs', { query: { ...filter, ...(pageParam === '' ? {} : { cursor: pageParam }) }, signal }),
    initialPageParam: '',
    getNextPageParam: page => page.nextCursor,
    placeholderData: keepPreviousData,
  })
  const rows: JobRow[] = query.data?.pages.flatMap(page => page.items) ?? []
  const isComplete = query.data !== undefined && !query.hasNextPage
  // A page of the answer may be empty although more follow, because the server checks a limited number of jobs per
  // request.
  useEffect(() => {
    if (rows.length === 0 && query.hasNextPage && !query.isFetching) void query.fetchNextPage()
  })
  const create = () => void navigate({ to: '/jobs/new', search: { template: 'workflow' } })
  useShortcuts('Workflows', [{ keys: 'n', label: 'New workflow', run: create }])
  return (
    <>
      <PageHead
        title="Workflows"
        name="Workflows"
        actions={
          <Button look="primary" icon="plus" onClick={create}>
            New workflow
          </Button>
        }
      >
        <NameFilter
          value={q}
          onChange={value => void setSearch({ search: before => ({ ...before, q: value }), replace: true })}
        />
      </PageHead>
      {query.error && query.data === undefined ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} className="m-4" />
      ) : query.data === undefined ? (
        <SkeletonRows />
      ) : rows.length === 0 && isComplete ? (
        q === undefined ? (
          <EmptyState
            icon="workflows"
            title="No workflows yet"
            command="timeball workflows create --file workflow.json"
          >
            A workflow is a job with tasks that need each other. It has one schedule, and a graph of runs each time it
            fires.
          </EmptyState>
        ) : (
          <EmptyState icon="search" title="No workflow has this name" />
        )
      ) : (
        <DataTable
          rows={rows}
          columns={COLUMNS}
          rowKey={rowKey}
          compact={compact}
          label="Workflows"
          onOpen={job => void navigate({ to: '/workflows/$workflowId', params: { workflowId: job.jobId } })}
          onEnd={() => query.hasNextPage && !query.isFetching && void query.fetchNextPage()}
          className="border-t bg-surface"
        />
      )}
    </>
  )
}

function NameFilter({ value, onChange }: { value: string | undefined; onChange: (value: string | undefined) => void }) {
  const [draft, setDraft] = useState(value ?? '')
  useEffect(() => {
    const wanted = draft.trim() === '' ? undefined : draft.trim()
    if (wanted === value) return
    const timer = setTimeout(() => onChange(wanted), 250)
    return () => clearTimeout(timer)
  }, [draft, value, onChange])
  return (
    <Input
      data-search
      aria-label="Search workflows"
      placeholder="Search by name or id"
      value={draft}
      onChange={event => setDraft(event.target.value)}
      className="max-w-72"
    />
  )
}

const rowKey = (job: JobRow) => job.jobId

function tasksOf(job: JobRow): number {
  const task: unknown = job.task
  const tasks = typeof task === 'object' && task !== null && 'tasks' in task ? task.tasks : []
  return Array.isArray(tasks) ? tasks.length : 0
}

const COLUMNS: readonly Column<JobRow>[] = [
  {
    id: 'name',
    header: 'Workflow',
    width: 'minmax(11rem, 2fr)',
    cell: job => (
      <span className="flex items-center gap-2">
        <StateIcon job={job.status} />
        <Link
          to="/workflows/$workflowId"
          params={{ workflowId: job.jobId }}
          className="bidi-plain min-w-0 truncate font-medium hover:text-accent"
        >
          {job.name || job.jobId}
        </Link>
      </span>
    ),
  },
  { id: 'tasks', header: 'Tasks', width: '4rem', align: 'right', cell: job => tasksOf(job) },
  { id: 'schedule', header: 'Schedule', width: 'minmax(9rem, 1.4fr)', cell: job => <ScheduleText job={job} /> },
  { id: 'next', header: 'Next fire', width: '6.5rem', align: 'right', cell: job => <NextFire job={job} /> },
  { id: 'runs', header: 'Last runs', width: '9.25rem', cell: job => <Strip job={job} /> },
  {
    id: 'tags',
    header: 'Tags',
    width: 'minmax(6rem, 1fr)',
    minTable: 1000,
    cell: job => <span className="bidi-plain text-ink-2">{job.tags.slice(0, 4).join(', ')}</span>,
  },
]

function NextFire({ job }: { job: JobRow }) {
  return job.status === 'paused' ? <span className="text-ink-2">paused</span> : <Countdown at={job.nextFireAt} />
}

/** The last runs of a workflow. A click on a bar opens the page of its workflow run. */
function Strip({ job }: { job: JobRow }) {
  const navigate = useNavigate()
  return (
    <div
      onClickCapture={event => {
        const bar = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-run]') : null
        if (bar?.dataset.run === undefined) return
        event.stopPropagation()
        void navigate({ to: '/workflow-runs/$workflowRunId', params: { workflowRunId: bar.dataset.run } })
      }}
    >
      <RunStrip runs={job.recentRuns ?? []} />
    </div>
  )
}

const compact = (job: JobRow) => (
  <>
    <div className="flex items-center gap-2">
      <span className="bidi-plain min-w-0 flex-1 truncate font-medium">{job.name || job.jobId}</span>
      <StateBadge job={job.status} />
    </div>
    <div className="flex items-center gap-3 text-ink-2 text-xs">
      <span className="min-w-0 flex-1 truncate">
        {tasksOf(job)} tasks · <ScheduleText job={job} />
      </span>
      <NextFire job={job} />
    </div>
  </>
)
