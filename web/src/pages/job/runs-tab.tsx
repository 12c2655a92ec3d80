import { Link, useNavigate } from '@tanstack/react-router'
import type { Run } from '@/api/types'
import { type Column, DataTable } from '@/components/data-table'
import { EmptyState } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { Duration, RelativeTime, Time } from '@/components/time'
import { duration } from '@/lib/time'

const COLUMNS: Column<Run>[] = [
  { id: 'status', header: 'Status', width: '7.5rem', cell: run => <StateBadge run={run.status} /> },
  { id: 'fire', header: 'Fire time', width: '9rem', cell: run => <Time at={run.fireTime} /> },
  { id: 'late', header: 'Late', width: '5rem', align: 'right', cell: run => lateText(run), minTable: 700 },
  {
    id: 'took',
    header: 'Took',
    width: '6rem',
    align: 'right',
    cell: run => <Duration from={run.startTime} to={run.endTime} />,
  },
  { id: 'attempt', header: 'Attempt', width: '4.5rem', align: 'right', cell: run => run.attempt, minTable: 800 },
  {
    id: 'detail',
    header: 'Detail',
    width: 'minmax(8rem, 1fr)',
    cell: run => <span className="bidi-plain text-ink-2">{detailText(run)}</span>,
  },
  {
    id: 'id',
    header: 'Run',
    width: '16.5rem',
    minTable: 1000,
    cell: run => (
      <Link to="/runs/$runId" params={{ runId: run.runId }} className="font-mono text-xs hover:text-accent">
        {run.runId}
      </Link>
    ),
  },
]

function lateText(run: Run): string {
  return run.lateMs === null ? '–' : duration(run.lateMs)
}

function detailText(run: Run): string {
  const text = run.error?.message ?? run.reason
  return text === '' && run.origin !== 'schedule' ? run.origin.replace('_', ' ') : text.slice(0, 300)
}

/** The last runs of the job. The page of all runs shows the others, and has filters. */
export function RunsTab({ jobId, runs }: { jobId: string; runs: readonly Run[] }) {
  const navigate = useNavigate()
  if (runs.length === 0) return <NoRuns jobId={jobId} />
  return (
    <DataTable
      label="Runs of the job"
      rows={runs}
      columns={COLUMNS}
      rowKey={run => run.runId}
      onOpen={run => void navigate({ to: '/runs/$runId', params: { runId: run.runId } })}
      compact={run => (
        <>
          <div className="flex justify-between gap-2">
            <StateBadge run={run.status} />
            <span className="text-ink-2">
              <Duration from={run.startTime} to={run.endTime} />
            </span>
          </div>
          <div className="flex justify-between gap-2 text-ink-3 text-xs">
            <span className="truncate">{detailText(run)}</span>
            <RelativeTime at={run.fireTime} className="shrink-0" />
          </div>
        </>
      )}
      footer={
        <Link to="/runs" search={{ jobId }} className="text-accent hover:underline">
          All runs of this job, with filters
        </Link>
      }
    />
  )
}

function NoRuns({ jobId }: { jobId: string }) {
  return (
    <EmptyState icon="runs" title="No runs yet" command={`timeball jobs run ${jobId}`}>
      The first run appears here when the job is due, or when it is run by hand.
    </EmptyState>
  )
}

/** A short list of the last runs, with one line per run. */
export function RecentRuns({ jobId, runs }: { jobId: string; runs: readonly Run[] }) {
  if (runs.length === 0) return <NoRuns jobId={jobId} />
  return (
    <>
      <ul className="divide-y text-sm">
        {runs.map(run => (
          <li key={run.runId}>
            <Link
              to="/runs/$runId"
              params={{ runId: run.runId }}
              className="grid h-9 grid-cols-[7rem_minmax(0,1fr)_4.5rem] items-center gap-3 px-4 hover:bg-hover sm:grid-cols-[7rem_5.5rem_minmax(0,1fr)_4.5rem]"
            >
              <StateBadge run={run.status} />
              <Time at={run.fireTime} className="text-ink-2" />
              <span className="bidi-plain hidden truncate text-ink-3 text-xs sm:block">{detailText(run)}</span>
              <Duration from={run.startTime} to={run.endTime} className="text-right" />
            </Link>
          </li>
        ))}
      </ul>
      <p className="border-t px-4 py-2 text-center text-xs">
        <Link to="/runs" search={{ jobId }} className="text-accent hover:underline">
          All runs of this job, with filters
        </Link>
      </p>
    </>
  )
}
