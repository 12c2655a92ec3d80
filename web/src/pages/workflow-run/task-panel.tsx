import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, request } from '@/api/client'
import { keys } from '@/api/keys'
import type { components } from '@/api/schema'
import { CopyAs } from '@/components/copy'
import { JsonView } from '@/components/json-view'
import { StateBadge, StateIcon } from '@/components/state'
import { Duration, Sentence, Time } from '@/components/time'
import { taskEnded, taskFailed, taskLook } from '@/components/workflow/states'
import { plural } from '@/lib/time'
import { Button, IconButton } from '@/ui/button'
import { workflowRunCommands } from './commands'

type WorkflowRun = components['schemas']['WorkflowRunView']
type Task = WorkflowRun['tasks'][number]
type Instance = WorkflowRun['instances'][number]

const MAX_INSTANCES_SHOWN = 100

/** The details of one task: its state and times, its error or result, and a link to its run. */
export function TaskPanel({
  run,
  task,
  onClose,
  onChoose,
  onRetry,
  retryWhy,
}: {
  run: WorkflowRun
  task: Task
  onClose: () => void
  onChoose: (name: string) => void
  onRetry: () => void
  retryWhy: string | undefined
}) {
  const instances = run.instances.filter(item => item.name === task.name)
  return (
    <section aria-label={`Task ${task.name}`} className="panel min-w-0 overflow-clip">
      <div className="flex min-h-10 items-center gap-2 border-b py-1.5 pr-1.5 pl-4">
        <h2 className="bidi-plain min-w-0 flex-1 truncate font-semibold text-sm" title={task.name}>
          {task.name}
        </h2>
        <IconButton label="Close" icon="close" onClick={onClose} />
      </div>
      <div className="grid gap-3 p-4 text-sm">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <StateBadge look={taskLook(task.status)} />
          <span className="text-ink-2">
            <Duration from={task.startTime} to={task.endTime} empty="" />
          </span>
        </div>
        {task.reason !== '' && !(taskFailed(task.status) && task.runId !== null) && (
          <p className="bidi-plain text-ink-2 [overflow-wrap:anywhere]">
            <Sentence text={task.reason} />
          </p>
        )}
        <dl className="grid grid-cols-[5.5rem_minmax(0,1fr)] gap-y-1 text-ink-2">
          <dt className="text-ink-3">Started</dt>
          <dd>
            <Time at={task.startTime} />
          </dd>
          <dt className="text-ink-3">Ended</dt>
          <dd>
            <Time at={task.endTime} />
          </dd>
          <dt className="text-ink-3">Needs</dt>
          <dd className="flex flex-wrap gap-x-2">
            {task.needs.length === 0
              ? '–'
              : task.needs.map(name => (
                  <button
                    key={name}
                    type="button"
                    onClick={() => onChoose(name)}
                    className="bidi-plain text-accent hover:underline"
                  >
                    {name}
                  </button>
                ))}
            {task.waitsFor > 0 && <span>({task.waitsFor} not ended)</span>}
          </dd>
          <dt className="text-ink-3">Runs if</dt>
          <dd>{RUN_IF[task.runIf]}</dd>
        </dl>
        {taskFailed(task.status) && (
          <div className="grid gap-1">
            <div className="flex gap-1">
              <Button icon="retry" why={retryWhy} onClick={onRetry} className="flex-1">
                Retry failed tasks
              </Button>
              <CopyAs commands={() => workflowRunCommands('retry', run.workflowRunId)} />
            </div>
            <p className="text-ink-3 text-xs">
              All tasks that failed run again, and those that need them. Tasks that succeeded are kept.
            </p>
          </div>
        )}
        {task.runId !== null && <RunDetails runId={task.runId} ended={taskEnded(task.status)} />}
        {instances.length > 0 && <Instances items={instances} />}
      </div>
    </section>
  )
}

const RUN_IF: Record<Task['runIf'], string> = {
  all_succeeded: 'all of them succeeded',
  any_failed: 'any of them failed',
  always: 'all of them ended, in any way',
}

function RunDetails({ runId, ended }: { runId: string; ended: boolean }) {
  const found = useQuery({
    queryKey: keys.run(runId),
    queryFn: ({ signal }) => api.get('/v1/runs/{runId}', { path: { runId }, signal }),
  })
  const result = useQuery({
    queryKey: keys.run(runId, 'result'),
    // If the task has no result, the answer has no body; the cache accepts null, but not undefined.
    queryFn: async ({ signal }) =>
      (await request<unknown>('GET', '/v1/runs/{runId}/result', { path: { runId }, signal })) ?? null,
    enabled: ended,
    retry: false,
  })
  const error = found.data?.error
  return (
    <>
      <Link to="/runs/$runId" params={{ runId }} className="text-accent hover:underline">
        Open its run and log
        {found.data !== undefined && found.data.attempt > 1 && ` (attempt ${found.data.attempt})`}
      </Link>
      {error != null && (
        <p className="bidi-plain max-h-48 overflow-auto whitespace-pre-wrap rounded-md bg-bad-soft px-3 py-2 font-mono text-xs [overflow-wrap:anywhere]">
          {error.message}
        </p>
      )}
      {result.data != null && (
        <div className="grid gap-1">
          <h3 className="label">Result</h3>
          <JsonView value={result.data} maxLines={40} />
        </div>
      )}
    </>
  )
}

function Instances({ items }: { items: readonly Instance[] }) {
  const shown = items.slice(0, MAX_INSTANCES_SHOWN)
  return (
    <div className="grid gap-1">
      <h3 className="label">{plural(items.length, 'item')}</h3>
      <ul className="max-h-72 overflow-auto rounded-md border" aria-label="Items" tabIndex={0}>
        {shown.map(item => (
          <li key={item.index} className="flex h-8 items-center gap-2 border-b px-3 last:border-0">
            <StateIcon look={taskLook(item.status)} />
            <span className="text-ink-2">item {item.index}</span>
            <span className="flex-1" />
            <span className="text-ink-3 text-xs">
              <Duration from={item.startTime} to={item.endTime} empty="" />
            </span>
            {item.runId !== null && (
              <Link to="/runs/$runId" params={{ runId: item.runId }} className="text-accent text-xs hover:underline">
                Open
              </Link>
            )}
          </li>
        ))}
      </ul>
      {items.length > shown.length && <p className="text-ink-3 text-xs">The first {shown.length}.</p>}
    </div>
  )
}
