import type { Column } from '@/components/data-table'
import { RowLink } from '@/components/row-link'
import { StateBadge, StateIcon } from '@/components/state'
import { RelativeTime } from '@/components/time'
import { serverNow, useNow } from '@/lib/clock'
import { zone } from '@/lib/settings'
import { count, dayTime, duration } from '@/lib/time'
import { queryString } from '@/lib/url'
import { RowButton } from '@/ui/button'
import { type Backfill, isOver, lookOf, runsFilter, timeLeft } from './model'
import { ProgressBar } from './progress'

export function columnsOf(cancel: ((backfill: Backfill) => void) | null): readonly Column<Backfill>[] {
  return [
    {
      id: 'state',
      header: 'State',
      width: '7rem',
      cell: row => <StateBadge look={lookOf(row)} className="align-middle" />,
    },
    {
      id: 'job',
      header: 'Job',
      width: 'minmax(8rem, 1fr)',
      cell: row => (
        <RowLink to={`jobs/${row.jobId}`} className="bidi-plain font-medium hover:text-accent hover:underline">
          {row.jobName || row.jobId}
        </RowLink>
      ),
    },
    {
      id: 'range',
      header: 'Range',
      width: '13.5rem',
      minTable: 860,
      cell: row => <Range row={row} />,
    },
    {
      id: 'progress',
      header: 'Progress',
      width: 'minmax(11rem, 2fr)',
      cell: row => (
        <span className="flex items-center gap-3">
          <ProgressBar backfill={row} className="flex-1" />
          <span className="min-w-16 shrink-0 text-right">
            {count(row.done)}/{count(row.total)}
          </span>
        </span>
      ),
    },
    {
      id: 'failed',
      header: 'Failed',
      width: '4.5rem',
      align: 'right',
      cell: row =>
        row.failed === 0 ? (
          <span className="text-ink-3">0</span>
        ) : (
          <RowLink
            to={`runs${queryString(runsFilter(row, 'failed'))}`}
            className="font-medium text-bad hover:underline"
            title="Show the failed runs"
          >
            {count(row.failed)}
          </RowLink>
        ),
    },
    {
      id: 'running',
      header: 'Running',
      width: '5.5rem',
      align: 'right',
      minTable: 720,
      cell: row =>
        isOver(row) ? (
          <span className="text-ink-3">–</span>
        ) : (
          <span>
            {count(row.running)} <span className="text-ink-3">of {count(row.parallelism)}</span>
          </span>
        ),
    },
    { id: 'left', header: 'Time left', width: '6rem', align: 'right', minTable: 980, cell: row => <Left row={row} /> },
    {
      id: 'created',
      header: 'Created',
      width: '5.5rem',
      align: 'right',
      minTable: 1100,
      cell: row => <RelativeTime at={row.createdAt} className="text-ink-2" />,
    },
    {
      id: 'actions',
      header: <span className="sr-only">Actions</span>,
      width: '2rem',
      align: 'right',
      cell: row =>
        cancel !== null && !isOver(row) ? (
          <RowButton
            label={`Cancel the backfill of ${row.jobName || row.jobId}`}
            icon="stop"
            onClick={() => cancel(row)}
          />
        ) : null,
    },
  ]
}

/** Both ends have a date, so that a range of days is not confused with one of hours. */
function Range({ row }: { row: Backfill }) {
  const shown = zone.use()
  const text = (at: string) => dayTime(Date.parse(at), serverNow(), shown)
  return (
    <span className="text-ink-2">
      <time dateTime={row.from}>{text(row.from)}</time> – <time dateTime={row.to}>{text(row.to)}</time>
    </span>
  )
}

export function Left({ row }: { row: Backfill }) {
  const left = timeLeft(row, useNow())
  if (left === null) return <span className="text-ink-3">–</span>
  return <span className="text-ink-2">{duration(Math.max(1000, Math.round(left / 1000) * 1000))}</span>
}

/** A row on a narrow screen, in two lines. */
export function CompactBackfill({ row }: { row: Backfill }) {
  return (
    <div className="grid gap-1">
      <div className="flex items-center gap-2">
        <StateIcon look={lookOf(row)} />
        <span className="bidi-plain min-w-0 flex-1 truncate font-medium">{row.jobName || row.jobId}</span>
        {row.failed > 0 && <span className="text-bad text-xs">{count(row.failed)} failed</span>}
        <span className="text-ink-2 text-xs">
          {count(row.done)}/{count(row.total)}
        </span>
      </div>
      <div className="pl-6">
        <ProgressBar backfill={row} />
      </div>
    </div>
  )
}
