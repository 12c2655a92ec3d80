import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import { useDenied } from '@/api/session'
import type { Job, Page, Run } from '@/api/types'
import { ErrorNotice } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { Duration } from '@/components/time'
import { isTerminal } from '@/lib/states'
import { Button } from '@/ui/button'
import type { Editor } from './editor'
import { testJobOf } from './model/document'

type LogChunk = { attempt: number; seq: number; stream: string; text: string }

const SHOWN_LOG_CHARACTERS = 8000

/**
 * Executes the edited definition once, now, as a separate job, so that the schedule and the history of the edited job
 * do not change.
 */
export function useTestRun(editor: Editor) {
  const start = useMutation({
    mutationFn: () => request<Job>('POST', '/v1/jobs', { body: testJobOf(editor.document) }),
    onError: error => {
      if (error instanceof ApiError) editor.showErrors(error.problem.errors ?? [])
    },
  })
  return start
}

export function TestButton({ editor, start }: { editor: Editor; start: ReturnType<typeof useTestRun> }) {
  const denied = useDenied('edit')
  return (
    <Button
      icon="play"
      busy={start.isPending}
      why={denied ?? (editor.broken === null ? undefined : 'The text is no JSON.')}
      onClick={() => start.mutate()}
    >
      Test run now
    </Button>
  )
}

export function TestPanel({ start, onClose }: { start: ReturnType<typeof useTestRun>; onClose: () => void }) {
  const job = start.data
  const runs = useQuery({
    queryKey: keys.job(job?.jobId ?? '', 'test-run'),
    queryFn: ({ signal }) =>
      request<Page<Run>>('GET', '/v1/jobs/{jobId}/runs', { path: { jobId: job?.jobId }, signal }),
    enabled: job !== undefined,
    refetchInterval: query => {
      const found = query.state.data?.items[0]
      return found !== undefined && isTerminal(found.status) ? false : 1000
    },
  })
  const run = runs.data?.items[0]
  const done = run !== undefined && isTerminal(run.status)
  const log = useQuery({
    queryKey: keys.run(run?.runId ?? '', 'test-log', done),
    queryFn: ({ signal }) =>
      request<Page<LogChunk>>('GET', '/v1/runs/{runId}/logs', { path: { runId: run?.runId }, signal }),
    enabled: run !== undefined,
    refetchInterval: done ? false : 1000,
  })
  if (start.error)
    return <ErrorNotice error={start.error} title="The test run was not accepted" onRetry={() => start.mutate()} />
  if (job === undefined) return null
  const text = log.data?.items.map(item => item.text).join('') ?? ''
  return (
    <section className="panel overflow-clip" aria-label="Test run">
      <div className="flex min-h-10 flex-wrap items-center gap-3 px-4 py-1.5 text-sm">
        <h2 className="font-semibold">Test run</h2>
        {run === undefined ? (
          <span className="text-ink-3">It is accepted.</span>
        ) : (
          <>
            <StateBadge run={run.status} />
            <span className="text-ink-2">
              <Duration from={run.startTime} to={run.endTime} />
            </span>
            <Link to="/runs/$runId" params={{ runId: run.runId }} className="text-accent hover:underline">
              Open the run
            </Link>
          </>
        )}
        <span className="flex-1" />
        <Button small look="quiet" onClick={onClose}>
          Close
        </Button>
      </div>
      {run?.error && (
        <p className="border-t bg-bad-soft px-4 py-2 text-sm [overflow-wrap:anywhere]">{run.error.message}</p>
      )}
      {text !== '' && (
        <pre
          role="log"
          className="bidi-plain max-h-56 overflow-auto whitespace-pre-wrap border-t bg-sunken px-4 py-2 font-mono text-xs [overflow-wrap:anywhere]"
          tabIndex={0}
          aria-label="Output"
        >
          {text.slice(-SHOWN_LOG_CHARACTERS)}
        </pre>
      )}
    </section>
  )
}
