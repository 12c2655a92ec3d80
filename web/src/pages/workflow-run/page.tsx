import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { components } from '@/api/schema'
import { useDenied } from '@/api/session'
import { ConfirmDialog } from '@/components/confirm'
import { CopyAs, CopyId } from '@/components/copy'
import { Loaded, Skeleton } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { Duration, RelativeTime, Time } from '@/components/time'
import { LazyGraph, MAX_GRAPH_TASKS } from '@/components/workflow/lazy-graph'
import { taskFailed, taskLook } from '@/components/workflow/states'
import { PageHead, Section } from '@/layout/page'
import { choice, text } from '@/lib/search'
import { useShortcuts } from '@/lib/shortcuts'
import { isTerminal } from '@/lib/states'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Segments } from '@/ui/field'
import { toast } from '@/ui/toast'
import { workflowRunCommands } from './commands'
import { Gantt } from './gantt'
import { TaskPanel } from './task-panel'
import { TaskTable } from './task-table'

type WorkflowRun = components['schemas']['WorkflowRunView']

const route = getRouteApi('/shell/workflow-runs/$workflowRunId')
const VIEWS = ['graph', 'time', 'table'] as const

/** The page of one run of a workflow: the state, the times and the result of each task. */
export function Page() {
  const { workflowRunId } = route.useParams()
  const query = useQuery({
    queryKey: keys.workflowRun(workflowRunId),
    queryFn: ({ signal }) => api.get('/v1/workflow-runs/{workflowRunId}', { path: { workflowRunId }, signal }),
  })
  return (
    <Loaded query={query} skeleton={<Waiting />}>
      {run => <RunPage key={run.workflowRunId} run={run} />}
    </Loaded>
  )
}

function RunPage({ run }: { run: WorkflowRun }) {
  const search = route.useSearch()
  const setSearch = route.useNavigate()
  const navigate = useNavigate()
  const client = useQueryClient()
  const denied = useDenied('run')
  const [asks, setAsks] = useState(false)
  const large = run.tasks.length > MAX_GRAPH_TASKS
  const view = choice(search, 'view', VIEWS) ?? (large ? 'table' : 'graph')
  const chosen = text(search, 'task')
  const task = run.tasks.find(item => item.name === chosen)
  const set = (change: { view?: string | undefined; task?: string | undefined }) =>
    void setSearch({ search: before => ({ ...before, ...change }), replace: true })
  const choose = (name: string) => set({ task: name === chosen ? undefined : name })
  const path = { workflowRunId: run.workflowRunId }
  const retry = useMutation({
    mutationFn: () => api.post('/v1/workflow-runs/{workflowRunId}/retry', { path }),
    onSuccess: next => {
      toast.done('The failed tasks run again')
      void navigate({
        to: '/workflow-runs/$workflowRunId',
        params: { workflowRunId: next.workflowRunId },
        search: { view },
      })
    },
    onError: error => toast.error('The run was not retried', error),
  })
  const cancel = async () => {
    await api.post('/v1/workflow-runs/{workflowRunId}/cancel', { path })
    toast.done('The run is being cancelled')
    await client.invalidateQueries({ queryKey: keys.workflowRun(run.workflowRunId) })
  }
  const ended = isTerminal(run.status)
  const failed = run.tasks.filter(item => taskFailed(item.status)).length
  const retryWhy = denied ?? whyNoRetry(run, ended)
  useShortcuts('Workflow run', [
    ...VIEWS.map((name, at) => ({ keys: String(at + 1), label: `Show ${name}`, run: () => set({ view: name }) })),
    ...(ended && retryWhy === undefined
      ? [{ keys: 'r', label: 'Retry from the failed tasks', run: () => retry.mutate() }]
      : []),
  ])
  const tasks = useMemo(
    () =>
      run.tasks.map(item => ({
        ...item,
        instances: item.instances === undefined ? null : { total: item.instances, open: item.instancesOpen ?? 0 },
      })),
    [run.tasks],
  )

  return (
    <>
      <PageHead
        title={<span className="bidi-plain">{run.name || run.workflowId}</span>}
        name={run.name || 'Workflow run'}
        detail={
          <span className="flex flex-wrap items-center gap-x-4 gap-y-1">
            <StateBadge run={run.status} />
            <span>
              <Duration from={run.startTime} to={run.endTime} />
            </span>
            <span>
              <RelativeTime at={run.startTime ?? run.fireTime} />
            </span>
          </span>
        }
        actions={
          <>
            <CopyAs commands={() => workflowRunCommands(ended ? 'retry' : 'cancel', run.workflowRunId)} />
            {!ended && (
              <Button
                icon="stop"
                why={denied ?? (run.cancelRequestedAt === null ? undefined : 'It is being cancelled.')}
                onClick={() => setAsks(true)}
              >
                Cancel
              </Button>
            )}
            {ended && run.status !== 'succeeded' && (
              <Button icon="retry" look="primary" why={retryWhy} busy={retry.isPending} onClick={() => retry.mutate()}>
                Retry{failed > 0 && ` ${plural(failed, 'failed task')}`}
              </Button>
            )}
          </>
        }
      >
        <Facts run={run} />
      </PageHead>
      <div
        className={cx(
          'grid min-w-0 content-start items-start gap-4 px-4 pb-8 lg:px-6',
          task !== undefined && 'xl:grid-cols-[minmax(0,1fr)_22rem] 3xl:grid-cols-[minmax(0,1fr)_30rem]',
        )}
      >
        <div className={cx('grid min-w-0 gap-4', view === 'graph' && '3xl:grid-cols-2')}>
          <Section
            title="Tasks"
            className="overflow-clip"
            aside={
              <Segments
                label="View"
                value={view}
                onChange={next => set({ view: next })}
                options={[
                  { value: 'graph', label: 'Graph' },
                  { value: 'time', label: 'Time' },
                  { value: 'table', label: 'Table' },
                ]}
              />
            }
          >
            {view === 'graph' && (
              <LazyGraph tasks={tasks} chosen={chosen} onChoose={name => name !== chosen && choose(name)} />
            )}
            {view === 'time' && <Gantt run={run} chosen={chosen} onChoose={choose} />}
            {view === 'table' && <TaskTable tasks={run.tasks} onChoose={choose} />}
          </Section>
          {view === 'graph' && !large && (
            <Section title="Over time" className="overflow-clip">
              <Gantt run={run} chosen={chosen} onChoose={choose} />
            </Section>
          )}
        </div>
        {task !== undefined && (
          <div className="min-w-0 xl:sticky xl:top-0">
            <TaskPanel
              run={run}
              task={task}
              onClose={() => set({ task: undefined })}
              onChoose={name => set({ task: name })}
              onRetry={() => retry.mutate()}
              retryWhy={retryWhy}
            />
          </div>
        )}
      </div>
      <ConfirmDialog
        open={asks}
        onClose={() => setAsks(false)}
        title="Cancel this workflow run?"
        action="Cancel the run"
        danger
        onConfirm={cancel}
        commands={() => workflowRunCommands('cancel', run.workflowRunId)}
      >
        No more tasks start, and tasks that run now are cancelled. Later it can be retried from the tasks that did not
        succeed.
      </ConfirmDialog>
    </>
  )
}

function whyNoRetry(run: WorkflowRun, ended: boolean): string | undefined {
  if (!ended) return 'The run has not ended yet.'
  if (run.retriedAs !== null) return 'It was retried already.'
  return run.status === 'succeeded' ? 'The run succeeded.' : undefined
}

/** The number of tasks by state, and the origin of the run. */
function Facts({ run }: { run: WorkflowRun }) {
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-ink-2 text-sm">
      {Object.entries(run.counts).map(([status, number]) => (
        <StateBadge
          key={status}
          look={{ ...taskLook(status), label: `${number} ${taskLook(status).label.toLowerCase()}` }}
        />
      ))}
      <Link to="/workflows/$workflowId" params={{ workflowId: run.workflowId }} className="text-accent hover:underline">
        Workflow, version {run.version}
      </Link>
      <span>
        fired <Time at={run.fireTime} /> ({run.origin.replace('_', ' ')})
      </span>
      {run.retryOf !== null && (
        <Link
          to="/workflow-runs/$workflowRunId"
          params={{ workflowRunId: run.retryOf }}
          className="text-accent hover:underline"
        >
          Retry of an earlier run
        </Link>
      )}
      {run.retriedAs !== null && (
        <Link
          to="/workflow-runs/$workflowRunId"
          params={{ workflowRunId: run.retriedAs }}
          className="text-accent hover:underline"
        >
          Retried: open the newer run
        </Link>
      )}
      <CopyId id={run.workflowRunId} />
      {run.error !== null && (
        <p className="bidi-plain basis-full text-bad [overflow-wrap:anywhere]">{run.error.message}</p>
      )}
    </div>
  )
}

function Waiting() {
  return (
    <>
      <PageHead title="Workflow run" name="Workflow run" />
      <div className="grid gap-4 px-4 lg:px-6">
        <Skeleton className="h-96 w-full" />
      </div>
    </>
  )
}
