import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { Run } from '@/api/types'
import { CopyId } from '@/components/copy'
import { JsonView } from '@/components/json-view'
import { Loaded, Skeleton } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { RelativeTime, Sentence, Time } from '@/components/time'
import { Section } from '@/layout/page'
import { isTerminal } from '@/lib/states'
import { Icon } from '@/ui/icon'
import { originText } from './timeline'

/** Explains in sentences why the run has its status, and what would change it. */
export function WhySection({ run }: { run: Run }) {
  const why = useQuery({
    queryKey: keys.run(run.runId, 'why'),
    queryFn: ({ signal }) => api.get('/v1/runs/{runId}/why', { path: { runId: run.runId }, signal }),
  })
  return (
    <Section title="Why">
      <Loaded query={why} skeleton={<Skeleton className="m-4 h-10" />}>
        {found => (
          <ul className="grid gap-3 p-4 text-sm">
            {(found.reasons.length === 0 ? [{ code: '', text: found.answer, unblocks: '' }] : found.reasons).map(
              (reason, index) => (
                <li key={index} className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-2">
                  <Icon name={index === 0 ? 'info' : 'right'} size={14} className="mt-0.5 text-ink-3" />
                  <div className="min-w-0 [overflow-wrap:anywhere]">
                    <p className="bidi-plain">
                      <Sentence text={reason.text} />
                    </p>
                    {reason.unblocks !== '' && (
                      <p className="bidi-plain text-ink-2">
                        <Sentence text={reason.unblocks} />
                      </p>
                    )}
                    {'runId' in reason && reason.runId !== undefined && reason.runId !== run.runId && (
                      <RunLink runId={reason.runId} />
                    )}
                  </div>
                </li>
              ),
            )}
          </ul>
        )}
      </Loaded>
    </Section>
  )
}

export function ErrorSection({ run }: { run: Run }) {
  if (run.error === null) return null
  const { kind, message, exitCode, status, exceptions } = run.error
  return (
    <section className="rounded-lg border border-line bg-bad-soft px-4 py-3">
      <h2 className="flex flex-wrap items-center gap-2 text-sm">
        <Icon name="state-bad" className="text-bad" />
        <span className="font-semibold">Error</span>
        <span className="text-ink-2">
          {kind}
          {exitCode !== undefined && `, exit code ${exitCode}`}
          {status !== undefined && `, status ${status}`}
        </span>
        {run.fingerprint !== undefined && (
          <Link
            to="/runs"
            search={{ fingerprint: run.fingerprint } as never}
            className="no-print ml-auto text-accent text-xs hover:underline"
          >
            Runs with the same error
          </Link>
        )}
      </h2>
      <pre className="bidi-plain mt-2 max-h-72 overflow-auto whitespace-pre-wrap font-mono text-xs leading-5 [overflow-wrap:anywhere]">
        {message.length > 20_000 ? `${message.slice(0, 20_000)} …` : message}
      </pre>
      {exceptions !== undefined && exceptions.length > 0 && (
        <p className="mt-1 font-mono text-ink-2 text-xs [overflow-wrap:anywhere]">{exceptions.join(' ← ')}</p>
      )}
    </section>
  )
}

export function RunLink({ runId }: { runId: string }) {
  return (
    <Link to="/runs/$runId" params={{ runId }} className="font-mono text-accent text-xs hover:underline">
      {runId}
    </Link>
  )
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="grid grid-cols-[7rem_minmax(0,1fr)] gap-2 py-1">
      <dt className="text-ink-3">{label}</dt>
      <dd className="min-w-0 [overflow-wrap:anywhere]">{children}</dd>
    </div>
  )
}

/** The properties of a run, with links to its job, worker and related runs. */
export function FactsSection({ run }: { run: Run }) {
  const related: [string, string | null | undefined][] = [
    ['Retry of', run.retryOf],
    ['Retried as', run.retriedAs],
    ['Replay of', run.replayOf],
    ['Follows', run.followedRunId],
    ['Preempted by', run.preemptedBy],
  ]
  return (
    <Section title="Details">
      <dl className="px-4 py-2 text-sm">
        <Fact label="Run">
          <CopyId id={run.runId} />
        </Fact>
        <Fact label="Job">
          <Link to="/jobs/$jobId" params={{ jobId: run.jobId }} className="bidi-plain text-accent hover:underline">
            {run.jobName === '' ? run.jobId : run.jobName}
          </Link>{' '}
          <span className="text-ink-3">version {run.jobVersion}</span>
        </Fact>
        <Fact label="Fire time">
          <Time at={run.fireTime} full />
        </Fact>
        {run.fires !== undefined && run.fires > 1 && <Fact label="Fires">{run.fires} fires in one run</Fact>}
        <Fact label="Verdict">
          <StateBadge verdict={run.verdict} />
        </Fact>
        <Fact label="Made">{originText(run)}</Fact>
        <Fact label="Worker">
          <span className="bidi-plain">{run.executorId ?? '–'}</span>
        </Fact>
        <Fact label="Attempt">
          {run.attempt}
          {run.fencingToken !== null && <span className="ml-2 text-ink-3">fencing token {run.fencingToken}</span>}
        </Fact>
        {run.orderingKey !== undefined && <Fact label="Ordering key">{run.orderingKey}</Fact>}
        {run.startBy !== undefined && (
          <Fact label="Start by">
            <Time at={run.startBy} />
          </Fact>
        )}
        {run.backfillId !== undefined && (
          <Fact label="Backfill">
            <CopyId id={run.backfillId} />
          </Fact>
        )}
        {related.map(([label, id]) =>
          id === null || id === undefined ? null : (
            <Fact key={label} label={label}>
              <RunLink runId={id} />
            </Fact>
          ),
        )}
        {run.blockedBy?.map(id => (
          <Fact key={id} label="Blocked by">
            <RunLink runId={id} />
          </Fact>
        ))}
        {run.cancelRequestedAt !== null && (
          <Fact label="Cancelled">
            <RelativeTime at={run.cancelRequestedAt} /> {run.cancelReason}
          </Fact>
        )}
        {run.discardedAt !== undefined && (
          <Fact label="Discarded">
            <RelativeTime at={run.discardedAt} />
          </Fact>
        )}
      </dl>
    </Section>
  )
}

/** The parameters, the result, and the definition that was executed. */
export function SpecSections({ run }: { run: Run }) {
  const spec = useQuery({
    queryKey: keys.run(run.runId, 'spec'),
    queryFn: ({ signal }) => api.get('/v1/runs/{runId}/spec', { path: { runId: run.runId }, signal }),
    staleTime: 60_000,
    retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status === 409),
  })
  const parameters = spec.data?.spec.parameters as Record<string, unknown> | undefined
  return (
    <>
      {parameters !== undefined && Object.keys(parameters).length > 0 && (
        <Section title="Parameters">
          <JsonView value={parameters} className="border-0" />
        </Section>
      )}
      <ResultSection run={run} />
      <Section title={spec.data?.edited === true ? 'Definition as executed (edited)' : 'Definition as executed'}>
        <Loaded query={spec} skeleton={<Skeleton className="m-4 h-40" />}>
          {found => <JsonView value={found.spec} className="border-0" maxLines={40} />}
        </Loaded>
      </Section>
    </>
  )
}

function ResultSection({ run }: { run: Run }) {
  const result = useQuery({
    queryKey: keys.run(run.runId, 'result'),
    queryFn: async ({ signal }) => {
      const value = await api.get('/v1/runs/{runId}/result', { path: { runId: run.runId }, signal })
      // An answer without content means that the run has no result. The cache does not accept undefined.
      return { value: value as unknown, exists: value !== undefined }
    },
    enabled: isTerminal(run.status),
  })
  if (result.data === undefined || !result.data.exists) return null
  return (
    <Section title="Result">
      <JsonView value={result.data.value} className="border-0" />
    </Section>
  )
}
