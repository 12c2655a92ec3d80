import type { Run } from '@/api/types'
import type { Column } from '@/components/data-table'
import { RowLink } from '@/components/row-link'
import { Sparkline } from '@/components/sparkline'
import { StateBadge, StateIcon } from '@/components/state'
import { RelativeTime } from '@/components/time'
import { useNow } from '@/lib/clock'
import { count, plural } from '@/lib/time'
import { RowButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { isBeatLate, memory, type WorkerRow } from './model'
import { usageOf, useSamples } from './samples'
import { Usage } from './usage'

export type WorkerActions = {
  runsOf: (worker: WorkerRow) => readonly Run[]
  drain: (worker: WorkerRow) => void
  canDrain: boolean
}

const MAX_NAMED_RUNS = 2

export function columnsOf(actions: WorkerActions): readonly Column<WorkerRow>[] {
  return [
    {
      id: 'state',
      header: 'State',
      width: '6.5rem',
      cell: row => (
        <StateBadge
          worker={row.state}
          className={row.state === 'lost' ? 'align-middle font-semibold' : 'align-middle'}
        />
      ),
    },
    {
      id: 'name',
      header: 'Worker',
      width: 'minmax(8rem, 1.2fr)',
      cell: row => <span className="bidi-plain font-medium">{row.name}</span>,
    },
    { id: 'slots', header: 'Slots', width: 'minmax(8rem, 1fr)', cell: row => <Slots row={row} /> },
    { id: 'usage', header: 'Since opened', width: '7rem', minTable: 1180, cell: row => <UsageLine row={row} /> },
    {
      id: 'runs',
      header: 'Runs now',
      width: 'minmax(9rem, 2fr)',
      minTable: 720,
      cell: row => <RunsNow row={row} runs={actions.runsOf(row)} />,
    },
    {
      id: 'cpu',
      header: 'CPU',
      width: '5.5rem',
      minTable: 1080,
      align: 'right',
      cell: row => (
        <Resource
          used={String(Number(row.inUse.cpu.toFixed(1)))}
          limit={row.cpu === null ? null : String(row.cpu)}
          row={row}
        />
      ),
    },
    {
      id: 'memory',
      header: 'Memory',
      width: '8.5rem',
      minTable: 1280,
      align: 'right',
      cell: row => (
        <Resource
          used={memory(row.inUse.memoryMb)}
          limit={row.memoryMb === null ? null : memory(row.memoryMb)}
          row={row}
        />
      ),
    },
    { id: 'labels', header: 'Labels', width: 'minmax(7rem, 1fr)', minTable: 900, cell: row => <Labels row={row} /> },
    {
      id: 'version',
      header: 'Version',
      width: '5.5rem',
      minTable: 1380,
      cell: row => <span className="bidi-plain text-ink-2">{row.version}</span>,
    },
    { id: 'beat', header: 'Last beat', width: '5.5rem', align: 'right', cell: row => <Beat row={row} /> },
    {
      id: 'actions',
      header: <span className="sr-only">Actions</span>,
      width: '2rem',
      align: 'right',
      cell: row =>
        actions.canDrain && row.state === 'live' ? (
          <RowButton label={`Drain ${row.name}`} icon="state-drain" onClick={() => actions.drain(row)} />
        ) : null,
    },
  ]
}

function Slots({ row, flush = false }: { row: WorkerRow; flush?: boolean }) {
  if (row.endedAt !== null) return <span className="text-ink-3">{plural(row.slots, 'slot')}</span>
  const free = row.slots - row.inUse.slots
  return (
    <span className="flex items-center gap-2">
      <span className={cx('shrink-0', flush ? 'min-w-8' : 'w-11 text-right')}>
        {count(row.inUse.slots)}/{count(row.slots)}
      </span>
      <Usage
        used={row.inUse.slots}
        total={row.slots}
        idle={row.state === 'draining'}
        label={`${row.name}: ${row.inUse.slots} of ${row.slots} slots in use, ${free} free`}
        className="max-w-40 flex-1"
      />
    </span>
  )
}

function UsageLine({ row }: { row: WorkerRow }) {
  const samples = useSamples()
  if (row.endedAt !== null || samples.length < 2) return <span className="text-ink-3">–</span>
  return (
    <Sparkline
      values={usageOf(samples, row.workerId)}
      max={row.slots}
      label={`Slots of ${row.name} in use since this page was opened`}
      tone="text-live"
      className="!h-5"
    />
  )
}

function RunsNow({ row, runs }: { row: WorkerRow; runs: readonly Run[] }) {
  if (row.endedAt !== null)
    return (
      <span className="text-ink-2">
        {row.state === 'lost' ? (row.isBack ? 'lost, and back under its name' : 'its runs go to other workers') : ''}
      </span>
    )
  if (row.running === 0)
    return <span className="text-ink-3">{row.reservedFor === null ? 'idle' : `kept for ${row.reservedFor}`}</span>
  const named = runs.slice(0, MAX_NAMED_RUNS)
  if (named.length === 0) return <span className="text-ink-2">{plural(row.running, 'run')}</span>
  const more = row.running - named.length
  return (
    <span className="flex min-w-0 items-center gap-1.5">
      <StateIcon run="running" className="shrink-0" />
      <span className="min-w-0 truncate">
        {named.map((run, at) => (
          <span key={run.runId}>
            {at > 0 && ', '}
            <RowLink to={`runs/${run.runId}`} className="bidi-plain hover:text-accent hover:underline">
              {run.jobName || run.jobId}
            </RowLink>
          </span>
        ))}
      </span>
      {more > 0 && <span className="shrink-0 text-ink-3">+{count(more)}</span>}
    </span>
  )
}

function Resource({ used, limit, row }: { used: string; limit: string | null; row: WorkerRow }) {
  if (row.endedAt !== null) return <span className="text-ink-3">{limit ?? '–'}</span>
  return (
    <span className="text-ink-2">
      {used}
      <span className="text-ink-3"> / {limit ?? 'any'}</span>
    </span>
  )
}

function Labels({ row }: { row: WorkerRow }) {
  if (row.labels.length === 0) return <span className="text-ink-3">–</span>
  return (
    <span className="flex min-w-0 items-center gap-1">
      {row.labels.map(label => (
        <span key={label} className="bidi-plain max-w-32 truncate rounded-sm bg-sunken px-1.5 text-ink-2 text-xs">
          {label}
        </span>
      ))}
      {row.dedicated && <span className="text-ink-3 text-xs">only</span>}
    </span>
  )
}

function Beat({ row }: { row: WorkerRow }) {
  const late = isBeatLate(row, useNow())
  if (row.endedAt !== null && row.state !== 'lost') return <RelativeTime at={row.endedAt} className="text-ink-3" />
  return (
    <RelativeTime
      at={row.seenAt}
      className={
        row.state === 'lost' && !row.isBack ? 'font-semibold' : late ? 'font-medium text-late-ink' : 'text-ink-2'
      }
    />
  )
}

/** A row on a narrow screen, in two lines. */
export function CompactWorker({ row }: { row: WorkerRow }) {
  return (
    <div className="grid gap-0.5">
      <div className="flex items-center gap-2">
        <StateIcon worker={row.state} />
        <span className="bidi-plain min-w-0 flex-1 truncate font-medium">{row.name}</span>
        {row.state !== 'live' && (
          <span className={row.state === 'lost' ? 'font-semibold text-xs' : 'text-ink-2 text-xs'}>
            <StateWord row={row} />
          </span>
        )}
        <Beat row={row} />
      </div>
      <div className="flex items-center gap-3 pl-6 text-xs">
        <span className="w-36 shrink-0">
          <Slots row={row} flush />
        </span>
        <span className="bidi-plain min-w-0 flex-1 truncate text-right text-ink-2">{row.labels.join(', ')}</span>
      </div>
    </div>
  )
}

function StateWord({ row }: { row: WorkerRow }) {
  return row.state === 'lost' && row.isBack ? 'Back' : row.state[0]?.toUpperCase() + row.state.slice(1)
}
