import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { components } from '@/api/schema'
import { useDenied } from '@/api/session'
import { CopyAs, CopyId } from '@/components/copy'
import { JsonView } from '@/components/json-view'
import { EmptyState, Loaded, Skeleton, SkeletonRows } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { Countdown, Duration, Time } from '@/components/time'
import { LazyGraph } from '@/components/workflow/lazy-graph'
import { PageHead, Section } from '@/layout/page'
import { type Commands, cli, curl, python } from '@/lib/quote'
import { text } from '@/lib/search'
import { useShortcuts } from '@/lib/shortcuts'
import { plural } from '@/lib/time'
import { apiUrl } from '@/lib/url'
import { Button } from '@/ui/button'
import { toast } from '@/ui/toast'
import { ScheduleText } from '../jobs/schedule'

type Workflow = components['schemas']['WorkflowView']

const route = getRouteApi('/shell/workflows/$workflowId')
const SHOWN_RUNS = 50

/** The page of a workflow: its graph, its schedule and its runs. */
export function Page() {
  const { workflowId } = route.useParams()
  const query = useQuery({
    queryKey: keys.workflow(workflowId),
    queryFn: ({ signal }) => api.get('/v1/workflows/{workflowId}', { path: { workflowId }, signal }),
  })
  return (
    <Loaded query={query} skeleton={<Waiting />}>
      {workflow => <WorkflowPage workflow={workflow} />}
    </Loaded>
  )
}

function WorkflowPage({ workflow }: { workflow: Workflow }) {
  const { workflowId } = workflow
  const chosen = text(route.useSearch(), 'task')
  const setSearch = route.useNavigate()
  const navigate = useNavigate()
  const client = useQueryClient()
  const denied = useDenied('run')
  const noEdit = useDenied('edit')
  const path = { workflowId }
  const refresh = () => {
    void client.invalidateQueries({ queryKey: keys.workflow(workflowId) })
    void client.invalidateQueries({ queryKey: ['jobs'] })
  }
  const run = useMutation({
    mutationFn: () => api.post('/v1/workflows/{workflowId}/run', { path }),
    onSuccess: answer => {
      refresh()
      if (answer.runId != null)
        void navigate({ to: '/workflow-runs/$workflowRunId', params: { workflowRunId: answer.runId } })
    },
    onError: error => toast.error('The workflow was not started', error),
  })
  const paused = workflow.status === 'paused'
  const toggle = useMutation({
    mutationFn: () =>
      paused
        ? api.post('/v1/workflows/{workflowId}/resume', { path })
        : api.post('/v1/workflows/{workflowId}/pause', { path }),
    onSuccess: refresh,
    onError: error => toast.error(paused ? 'It was not resumed' : 'It was not paused', error),
  })
  const edit = () => void navigate({ to: '/jobs/$jobId/edit', params: { jobId: workflowId }, search: {} })
  const over = workflow.status === 'cancelled' ? 'It is cancelled.' : undefined
  useShortcuts('Workflow', [{ keys: 'e', label: 'Edit', run: edit }])
  const tasks = useMemo(
    () =>
      workflow.tasks.map(task => ({
        name: task.name,
        needs: task.needs ?? [],
        status: null,
        detail: kindOf(task),
      })),
    [workflow.tasks],
  )
  const definition = workflow.tasks.find(task => task.name === chosen)
  return (
    <>
      <PageHead
        title={<span className="bidi-plain">{workflow.name || workflowId}</span>}
        name={workflow.name || 'Workflow'}
        detail={<StateBadge job={workflow.status} />}
        actions={
          <>
            <CopyAs commands={() => runCommands(workflowId)} />
            <Button icon="edit" why={noEdit ?? over} onClick={edit}>
              Edit
            </Button>
            <Button
              icon={paused ? 'play' : 'pause'}
              why={denied ?? over}
              busy={toggle.isPending}
              onClick={() => toggle.mutate()}
            >
              {paused ? 'Resume' : 'Pause'}
            </Button>
            <Button look="primary" icon="play" why={denied ?? over} busy={run.isPending} onClick={() => run.mutate()}>
              Run now
            </Button>
          </>
        }
      >
        <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-ink-2 text-sm">
          {workflow.description !== '' && (
            <p className="bidi-plain basis-full [overflow-wrap:anywhere]">{workflow.description}</p>
          )}
          <span>
            <ScheduleText job={workflow} />
          </span>
          {workflow.nextFireAt !== null && (
            <span>
              next fire in <Countdown at={workflow.nextFireAt} />
            </span>
          )}
          <span>{plural(workflow.tasks.length, 'task')}</span>
          <span>version {workflow.version}</span>
          {workflow.tags.slice(0, 8).map(tag => (
            <span key={tag} className="bidi-plain max-w-40 truncate rounded-sm bg-hover px-1.5 text-xs">
              {tag}
            </span>
          ))}
          <Link to="/jobs/$jobId" params={{ jobId: workflowId }} className="text-accent hover:underline">
            Ledger and versions
          </Link>
          <CopyId id={workflowId} />
        </div>
      </PageHead>
      <div className="grid min-w-0 content-start items-start gap-4 px-4 pb-8 lg:px-6 3xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="grid min-w-0 gap-4">
          <Section title="Tasks" className="overflow-clip">
            <LazyGraph
              tasks={tasks}
              chosen={chosen}
              onChoose={name =>
                name !== chosen && void setSearch({ search: before => ({ ...before, task: name }), replace: true })
              }
            />
          </Section>
          {definition !== undefined && (
            <Section
              title={<span className="bidi-plain">{definition.name}</span>}
              aside={
                <Button
                  small
                  look="quiet"
                  onClick={() => void setSearch({ search: before => ({ ...before, task: undefined }), replace: true })}
                >
                  Close
                </Button>
              }
            >
              <div className="p-4">
                <JsonView value={definition} />
              </div>
            </Section>
          )}
        </div>
        <Section title="Runs" className="overflow-clip">
          <Runs workflowId={workflowId} />
        </Section>
      </div>
    </>
  )
}

function Runs({ workflowId }: { workflowId: string }) {
  const query = useQuery({
    queryKey: keys.workflow(workflowId, 'runs'),
    queryFn: ({ signal }) =>
      api.get('/v1/workflows/{workflowId}/runs', { path: { workflowId }, query: { limit: SHOWN_RUNS }, signal }),
  })
  return (
    <Loaded query={query} skeleton={<SkeletonRows rows={6} />}>
      {page =>
        page.items.length === 0 ? (
          <EmptyState icon="runs" title="No runs yet" command={cli(['workflows', 'run', workflowId])} />
        ) : (
          <ul aria-label="Runs">
            {page.items.map(run => (
              <li key={run.runId} className="border-b last:border-0">
                <Link
                  to="/workflow-runs/$workflowRunId"
                  params={{ workflowRunId: run.runId }}
                  className="flex h-9 items-center gap-4 px-4 text-sm hover:bg-hover"
                >
                  <StateBadge run={run.status} className="w-28" />
                  <Time at={run.fireTime} className="w-28" />
                  <span className="hidden text-ink-3 text-xs sm:inline">{run.origin.replace('_', ' ')}</span>
                  <span className="invisible min-w-0 flex-1 truncate text-ink-2 text-xs sm:visible">
                    <bdi>{run.error?.message ?? run.reason}</bdi>
                  </span>
                  <Duration from={run.startTime} to={run.endTime} className="text-ink-2" />
                </Link>
              </li>
            ))}
          </ul>
        )
      }
    </Loaded>
  )
}

function kindOf(task: Workflow['tasks'][number]): string {
  const kind = task.task?.kind ?? (task.taskId == null ? '' : `task ${task.taskId}`)
  return task.forEach === undefined ? String(kind) : `${String(kind)}, for each item`
}

function runCommands(workflowId: string): Commands {
  return {
    curl: curl('POST', String(apiUrl(`/v1/workflows/${workflowId}/run`))),
    cli: cli(['workflows', 'run', workflowId]),
    python: python('run_workflow', [workflowId]),
  }
}

function Waiting() {
  return (
    <>
      <PageHead title="Workflow" name="Workflow" />
      <div className="grid gap-4 px-4 lg:px-6">
        <Skeleton className="h-96 w-full" />
      </div>
    </>
  )
}
