import { useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import { useDenied } from '@/api/session'
import type { Origin } from '@/api/types'
import type { Column } from '@/components/data-table'
import { RowLink } from '@/components/row-link'
import { StateBadge, StateIcon } from '@/components/state'
import { Duration, Time } from '@/components/time'
import { isTerminal } from '@/lib/states'
import { duration } from '@/lib/time'
import { RowButton } from '@/ui/button'
import { toast } from '@/ui/toast'
import type { RunRow } from './rows'

export const ORIGIN_NAMES: Record<Origin, string> = {
  schedule: 'Schedule',
  catch_up: 'Catch-up',
  manual: 'By hand',
  retry: 'Retry',
  replay: 'Replay',
  backfill: 'Backfill',
  task: 'Workflow task',
}

export const RUN_COLUMNS: readonly Column<RunRow>[] = [
  {
    id: 'status',
    header: 'Status',
    width: '7.5rem',
    cell: row =>
      row.cancelling ? (
        <span className="inline-flex items-center gap-1.5">
          <StateIcon run="running" /> Cancelling
        </span>
      ) : (
        <StateBadge run={row.status} />
      ),
  },
  {
    id: 'job',
    header: 'Job',
    width: 'minmax(9rem, 1.6fr)',
    cell: row => (
      <RowLink to={`runs/${row.runId}`} className="bidi-plain font-medium hover:text-accent hover:underline">
        {row.jobName || row.jobId}
      </RowLink>
    ),
  },
  { id: 'due', header: 'Due', width: '7.5rem', cell: row => <Time at={row.fire} /> },
  {
    id: 'late',
    header: 'Late by',
    width: '5.5rem',
    align: 'right',
    minTable: 820,
    cell: row => <Lateness row={row} />,
  },
  { id: 'took', header: 'Took', width: '5.5rem', align: 'right', cell: row => <Took row={row} /> },
  {
    id: 'attempt',
    header: 'Attempt',
    width: '4.5rem',
    align: 'right',
    minTable: 980,
    cell: row => <span className={row.attempt > 1 ? '' : 'text-ink-3'}>{row.attempt === 0 ? '–' : row.attempt}</span>,
  },
  {
    id: 'origin',
    header: 'Origin',
    width: '6.5rem',
    minTable: 1080,
    cell: row => <span className="text-ink-2">{ORIGIN_NAMES[row.origin]}</span>,
  },
  {
    id: 'note',
    header: 'Note',
    width: 'minmax(8rem, 2.4fr)',
    minTable: 720,
    cell: row => (
      <span className={`bidi-plain ${row.status === 'failed' || row.status === 'dead' ? 'text-ink' : 'text-ink-2'}`}>
        {row.note}
      </span>
    ),
  },
  {
    id: 'id',
    header: 'Run',
    width: 'minmax(11rem, 0.8fr)',
    minTable: 1280,
    cell: row => <code className="font-mono text-ink-3 text-xs">{row.runId}</code>,
  },
  {
    id: 'actions',
    header: <span className="sr-only">Actions</span>,
    width: '2rem',
    align: 'right',
    cell: row => <RowAction row={row} />,
  },
]

function Lateness({ row }: { row: RunRow }) {
  if (row.lateMs === null) return <span className="text-ink-3">–</span>
  const isLate = row.verdict === 'late' || row.verdict === 'caught_up' || row.lateMs > 2000
  return (
    <span className={isLate ? 'font-medium text-late-ink' : 'text-ink-2'}>{duration(Math.max(0, row.lateMs))}</span>
  )
}

function Took({ row }: { row: RunRow }) {
  if (row.status === 'queued' || row.status === 'scheduled' || row.status === 'blocked')
    return <span className="text-ink-3">–</span>
  return <Duration from={row.start} to={row.end} />
}

/** The action that is possible in the status of a run, shown while the pointer or the focus is on its row. */
function RowAction({ row }: { row: RunRow }) {
  const client = useQueryClient()
  const denied = useDenied('run')
  if (denied !== undefined || row.status === 'skipped' || row.cancelling) return null
  const path = { runId: row.runId }
  const act = async (text: string, call: () => Promise<unknown>) => {
    try {
      await call()
      toast.done(text)
      void client.invalidateQueries({ queryKey: ['run', row.runId] })
    } catch (error) {
      toast.error(`Not done for ${row.runId}`, error)
    }
  }
  if (!isTerminal(row.status))
    return (
      <RowButton
        label="Cancel"
        icon="stop"
        onClick={() => void act('Cancel requested', () => api.post('/v1/runs/{runId}/cancel', { path }))}
      />
    )
  if (row.status === 'succeeded')
    return (
      <RowButton
        label="Replay"
        icon="retry"
        onClick={() => void act('Replayed', () => api.post('/v1/runs/{runId}/replay', { path }))}
      />
    )
  return (
    <RowButton
      label="Retry"
      icon="retry"
      onClick={() => void act('Retried', () => api.post('/v1/runs/{runId}/retry', { path }))}
    />
  )
}

/** A row on a narrow screen, in two lines. */
export function CompactRun({ row }: { row: RunRow }) {
  return (
    <div className="grid grid-cols-1 gap-0.5">
      <div className="flex items-center gap-2">
        <StateIcon run={row.status} />
        <RowLink to={`runs/${row.runId}`} className="bidi-plain min-w-0 flex-1 truncate font-medium">
          {row.jobName || row.jobId}
        </RowLink>
        <Time at={row.fire} className="text-ink-2 text-xs" />
      </div>
      <div className="flex items-center gap-2 pl-6 text-ink-2 text-xs">
        <span className="bidi-plain min-w-0 flex-1 truncate">{row.note || ORIGIN_NAMES[row.origin]}</span>
        <Lateness row={row} />
        <Took row={row} />
      </div>
    </div>
  )
}
