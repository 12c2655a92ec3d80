import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import { CopyAs, CopyId } from '@/components/copy'
import { Loaded, SkeletonRows } from '@/components/notices'
import { Sparkline } from '@/components/sparkline'
import { StateBadge } from '@/components/state'
import { Duration, RelativeTime, Time } from '@/components/time'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { Drawer } from '@/ui/dialog'
import { drainCommands, runsCommands } from './commands'
import { memory, type WorkerRow } from './model'
import { usageOf, useSamples } from './samples'
import { Usage } from './usage'

const SHOWN_RUNS = 100

/** The details of one worker: its capacity, the used part of it, and its current runs. */
export function WorkerPanel({
  worker,
  onClose,
  onDrain,
}: {
  worker: WorkerRow
  onClose: () => void
  onDrain: () => void
}) {
  const denied = useDenied('system')
  const isThere = worker.endedAt === null
  const why = denied ?? (worker.state === 'draining' ? 'It is draining already.' : isThere ? undefined : 'It has gone.')
  return (
    <Drawer
      open
      onClose={onClose}
      title={<span className="bidi-plain">{worker.name}</span>}
      footer={
        <>
          <CopyAs commands={() => drainCommands(worker.workerId)} label="Copy the drain as a command" />
          <span className="flex-1" />
          <Button icon="state-drain" look="danger" why={why} onClick={onDrain}>
            Drain
          </Button>
        </>
      }
    >
      <div className="grid gap-5 text-sm">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-1">
          <StateBadge worker={worker.state} className="font-medium" />
          <span className="text-ink-2">
            {isThere ? (
              <>
                last beat <RelativeTime at={worker.seenAt} />
              </>
            ) : (
              <>
                {worker.state === 'lost' ? 'lost' : 'left'} <RelativeTime at={worker.endedAt} />
              </>
            )}
          </span>
          <CopyId id={worker.workerId} className="text-ink-3" />
        </div>
        {worker.state === 'lost' && (
          <p className="rounded-md bg-bad-soft px-3 py-2">
            {worker.isBack
              ? 'A worker of this name has registered since.'
              : 'Its beats stopped. The runs that it held count as lost, and run again on other workers if their retries allow it. Look at the machine, and start the worker again.'}
          </p>
        )}
        {worker.reservedFor !== null && (
          <p className="rounded-md bg-late-soft px-3 py-2">
            Kept for a waiting run that needs {worker.reservedFor}. It takes no other run until it has room for that
            one.
          </p>
        )}
        {isThere && <Capacity worker={worker} />}
        <Facts worker={worker} />
        {isThere && <RunsNow workerId={worker.workerId} running={worker.running} />}
      </div>
    </Drawer>
  )
}

function Capacity({ worker }: { worker: WorkerRow }) {
  const samples = useSamples()
  const { inUse } = worker
  return (
    <div className="grid gap-3">
      <Bar
        name="Slots"
        text={`${inUse.slots} of ${worker.slots} in use, ${worker.slots - inUse.slots} free`}
        used={inUse.slots}
        total={worker.slots}
      />
      <Bar
        name="CPU"
        text={`${Number(inUse.cpu.toFixed(2))} of ${worker.cpu ?? 'any number'} asked for`}
        used={inUse.cpu}
        total={worker.cpu}
      />
      <Bar
        name="Memory"
        text={`${memory(inUse.memoryMb)} of ${worker.memoryMb === null ? 'any amount' : memory(worker.memoryMb)} asked for`}
        used={inUse.memoryMb}
        total={worker.memoryMb}
      />
      {samples.length > 1 && (
        <div className="grid gap-1">
          <span className="text-ink-3 text-xs">Slots in use since this page was opened</span>
          <Sparkline
            values={usageOf(samples, worker.workerId)}
            max={worker.slots}
            label={`Slots of ${worker.name} in use since this page was opened`}
            tone="text-live"
            className="!h-10"
          />
        </div>
      )}
    </div>
  )
}

function Bar({ name, text, used, total }: { name: string; text: string; used: number; total: number | null }) {
  return (
    <div className="grid gap-1">
      <span className="flex justify-between gap-3">
        <span className="text-ink-3">{name}</span>
        <span>{text}</span>
      </span>
      {total !== null && <Usage used={used} total={total} label={`${name}: ${text}`} className="w-full" />}
    </div>
  )
}

function Facts({ worker }: { worker: WorkerRow }) {
  return (
    <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-y-1.5">
      <Fact name="Labels">
        {worker.labels.length === 0 ? '–' : worker.labels.join(', ')}
        {worker.dedicated && ' (it takes only runs that ask for one of them)'}
      </Fact>
      <Fact name="Task kinds">{worker.kinds === null ? 'all' : worker.kinds.join(', ') || 'none'}</Fact>
      <Fact name="Python tasks">{worker.tasks.length === 0 ? '–' : worker.tasks.join(', ')}</Fact>
      {worker.pools.length > 0 && (
        <Fact name="Of its slots">{worker.pools.map(pool => `at most ${pool.slots} ${pool.name}`).join(', ')}</Fact>
      )}
      <Fact name="Version">{worker.version || '–'}</Fact>
      <Fact name="Registered">
        <Time at={worker.startedAt} /> (<RelativeTime at={worker.startedAt} />)
      </Fact>
      {worker.drainingSince !== null && (
        <Fact name="Draining since">
          <Time at={worker.drainingSince} /> (<RelativeTime at={worker.drainingSince} />)
        </Fact>
      )}
      {worker.endedAt === null && (
        <Fact name="Lease until">
          <Time at={worker.leaseUntil} />
        </Fact>
      )}
    </dl>
  )
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-3">{name}</dt>
      <dd className="bidi-plain min-w-0 [overflow-wrap:anywhere]">{children}</dd>
    </>
  )
}

function RunsNow({ workerId, running }: { workerId: string; running: number }) {
  const runs = useQuery({
    queryKey: keys.workers('runs', workerId),
    queryFn: ({ signal }) => api.get('/v1/runs', { query: { workerId, limit: SHOWN_RUNS }, signal }),
  })
  return (
    <section className="grid gap-1.5">
      <div className="flex items-center gap-2">
        <h3 className="label flex-1">Runs now</h3>
        <CopyAs commands={() => runsCommands(workerId)} label="Copy this list as a command" />
      </div>
      <Loaded query={runs} skeleton={<SkeletonRows rows={Math.min(Math.max(running, 1), 6)} />}>
        {page =>
          page.items.length === 0 ? (
            <p className="text-ink-2">
              {running === 0 ? 'It executes nothing now.' : `${plural(running, 'run')} of other tenants.`}
            </p>
          ) : (
            <ul aria-label="Runs of this worker" className="rounded-md border">
              {page.items.map(run => (
                <li key={run.runId} className="border-b last:border-0">
                  <Link
                    to="/runs/$runId"
                    params={{ runId: run.runId }}
                    className="flex h-9 items-center gap-3 px-3 hover:bg-hover"
                  >
                    <StateBadge run={run.status} />
                    <span className="bidi-plain min-w-0 flex-1 truncate font-medium">{run.jobName || run.jobId}</span>
                    {run.progress !== null && <span className="text-ink-3 text-xs">{run.progress}</span>}
                    <Duration from={run.startTime} to={run.endTime} className="text-ink-2" />
                  </Link>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  )
}
