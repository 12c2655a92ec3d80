import { Link } from '@tanstack/react-router'
import type { components } from '@/api/schema'
import { zone } from '@/lib/settings'
import { duration, plural } from '@/lib/time'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'
import { loadText, spanText } from './model'

export type Busy = components['schemas']['BusyBucketView']

/** The times with the highest load, and the jobs that cause it. */
export function BusyList({
  items,
  chosen,
  onChoose,
  label,
}: {
  items: readonly Busy[]
  chosen?: number | undefined
  onChoose?: (from: number) => void
  label: string
}) {
  const shownZone = zone.use()
  const most = Math.max(1, ...items.map(item => item.bucket.load ?? 0))
  return (
    <ol aria-label={label}>
      {items.map(({ bucket, causes }) => {
        const [from, to] = [Date.parse(bucket.from), Date.parse(bucket.to)]
        const over = bucket.load !== null && bucket.load > 1
        const title = spanText(from, to, shownZone)
        return (
          <li
            key={bucket.from}
            className={cx('grid gap-1 border-b px-4 py-2.5 last:border-0', from === chosen && 'bg-accent-soft')}
          >
            <div className="flex items-baseline gap-2 text-sm">
              {over && (
                <span role="img" aria-label="More than the capacity" className="self-center text-bad">
                  <Icon name="state-late" size={14} />
                </span>
              )}
              {onChoose === undefined ? (
                <span className="font-medium">{title}</span>
              ) : (
                <button
                  type="button"
                  aria-pressed={from === chosen}
                  onClick={() => onChoose(from)}
                  className="min-w-0 truncate text-left font-medium hover:text-accent hover:underline"
                >
                  {title}
                </button>
              )}
              <span className="flex-1" />
              <span className={cx('whitespace-nowrap', over ? 'font-semibold' : 'text-ink-2')}>
                {bucket.load === null || bucket.runSeconds === 0 ? '' : loadText(bucket.load)}
              </span>
            </div>
            {bucket.load !== null && bucket.runSeconds > 0 && <LoadBar load={bucket.load} most={most} />}
            <p className="text-ink-2 text-xs">
              {plural(bucket.fires, 'fire')} of {plural(bucket.jobs, 'job')}
              {bucket.runSeconds > 0 && <>, {duration(bucket.runSeconds * 1000)} of work</>}
            </p>
            <ul aria-label="Jobs" className="flex flex-wrap gap-x-3 gap-y-0.5 text-xs">
              {causes.map(cause => (
                <li key={cause.jobId} className="flex min-w-0 max-w-full items-baseline gap-1">
                  <Link
                    to="/jobs/$jobId"
                    params={{ jobId: cause.jobId }}
                    className="bidi-plain min-w-0 truncate text-accent hover:underline"
                  >
                    {cause.jobName || cause.jobId}
                  </Link>
                  <span className="whitespace-nowrap text-ink-3">
                    {cause.runSeconds === null ? `×${cause.fires}` : duration(cause.runSeconds * 1000)}
                  </span>
                </li>
              ))}
              {bucket.jobs > causes.length && (
                <li className="text-ink-3">and {plural(bucket.jobs - causes.length, 'more job', 'more jobs')}</li>
              )}
            </ul>
          </li>
        )
      })}
    </ol>
  )
}

/** A bar of the load, with a mark at the capacity. */
function LoadBar({ load, most }: { load: number; most: number }) {
  const over = load > 1
  return (
    <span aria-hidden="true" className="relative block h-1.5 rounded-full bg-hover">
      <span
        style={{ width: `${(Math.min(load, most) / most) * 100}%` }}
        className={cx('block h-full min-w-0.5 rounded-full', over ? 'bg-bad' : 'bg-live')}
      />
      {most > 1 && <span style={{ left: `${100 / most}%` }} className="absolute -inset-y-0.5 w-px bg-ink" />}
    </span>
  )
}
