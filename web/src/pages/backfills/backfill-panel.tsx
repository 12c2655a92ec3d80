import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useDenied } from '@/api/session'
import { CopyAs, CopyId } from '@/components/copy'
import { StateBadge } from '@/components/state'
import { RelativeTime, Time } from '@/components/time'
import { count, percent, plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { Drawer } from '@/ui/dialog'
import { Left } from './columns'
import { cancelCommands } from './commands'
import { type Backfill, isOver, lookOf, runsFilter } from './model'
import { ProgressBar, ProgressWords } from './progress'

/** The details of one backfill: its progress, its range, and a link to its runs. */
export function BackfillPanel({
  backfill,
  onClose,
  onCancel,
}: {
  backfill: Backfill
  onClose: () => void
  onCancel: () => void
}) {
  const denied = useDenied('run')
  const why = denied ?? (isOver(backfill) ? 'It has ended.' : undefined)
  const runs = (which: 'all' | 'failed' | 'live', text: string) => (
    <Link to="/runs" search={runsFilter(backfill, which)} className="text-accent hover:underline">
      {text}
    </Link>
  )
  return (
    <Drawer
      open
      onClose={onClose}
      title={<span className="bidi-plain">Backfill of {backfill.jobName || backfill.jobId}</span>}
      footer={
        <>
          <CopyAs commands={() => cancelCommands(backfill.backfillId)} label="Copy the cancellation as a command" />
          <span className="flex-1" />
          <Button icon="stop" look="danger" why={why} onClick={onCancel}>
            Cancel the backfill
          </Button>
        </>
      }
    >
      <div className="grid gap-5 text-sm">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-1">
          <StateBadge look={lookOf(backfill)} className="font-medium" />
          <CopyId id={backfill.backfillId} className="text-ink-3" />
        </div>
        {backfill.status === 'paused' && (
          <p className="rounded-md bg-late-soft px-3 py-2">
            Its job is paused. When the job is resumed, the backfill continues.{' '}
            <Link to="/jobs/$jobId" params={{ jobId: backfill.jobId }} className="text-accent underline">
              Open the job
            </Link>
          </p>
        )}
        {backfill.reason !== '' && <p className="bidi-plain text-ink-2 [overflow-wrap:anywhere]">{backfill.reason}</p>}
        <div className="grid gap-2">
          <p className="flex items-baseline gap-2">
            <span className="font-semibold text-2xl tracking-tight">
              {percent(backfill.total === 0 ? 1 : backfill.done / backfill.total, 0)}
            </span>
            <span className="text-ink-2">
              {count(backfill.done)} of {plural(backfill.total, 'fire')}
            </span>
          </p>
          <ProgressBar backfill={backfill} className="h-3" />
          <ProgressWords backfill={backfill} />
        </div>
        <p className="flex flex-wrap gap-x-4 gap-y-1">
          {runs('all', 'All runs')}
          {backfill.running > 0 && runs('live', 'Live runs')}
          {backfill.failed > 0 && runs('failed', plural(backfill.failed, 'failed run'))}
          <Link to="/jobs/$jobId" params={{ jobId: backfill.jobId }} className="text-accent hover:underline">
            Job
          </Link>
        </p>
        <dl className="grid grid-cols-[7.5rem_minmax(0,1fr)] gap-y-1.5">
          <Fact name="From">
            <Time at={backfill.from} full />
          </Fact>
          <Fact name="To, exclusive">
            <Time at={backfill.to} full />
          </Fact>
          {backfill.nextFireTime !== null && (
            <Fact name="Next fire">
              <Time at={backfill.nextFireTime} full />
            </Fact>
          )}
          <Fact name="At the same time">{plural(backfill.parallelism, 'run')}</Fact>
          {!isOver(backfill) && (
            <Fact name="Time left">
              <Left row={backfill} /> <span className="text-ink-3">at the pace so far</span>
            </Fact>
          )}
          <Fact name="Created">
            <Time at={backfill.createdAt} /> (<RelativeTime at={backfill.createdAt} />)
          </Fact>
          {backfill.finishedAt !== null && (
            <Fact name="Ended">
              <Time at={backfill.finishedAt} /> (<RelativeTime at={backfill.finishedAt} />)
            </Fact>
          )}
        </dl>
      </div>
    </Drawer>
  )
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-3">{name}</dt>
      <dd className="min-w-0 [overflow-wrap:anywhere]">{children}</dd>
    </>
  )
}
