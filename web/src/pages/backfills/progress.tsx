import { count } from '@/lib/time'
import { cx } from '@/ui/cx'
import { type Backfill, partsOf, progressText } from './model'

/** A bar with the done, failed, cancelled and running fires of a backfill. */
export function ProgressBar({ backfill, className }: { backfill: Backfill; className?: string }) {
  const text = progressText(backfill)
  return (
    <span
      role="progressbar"
      aria-label={text}
      aria-valuemin={0}
      aria-valuemax={backfill.total}
      aria-valuenow={backfill.done}
      title={text}
      className={cx('flex h-2 min-w-12 gap-px overflow-hidden rounded-[2px] bg-line-strong/50', className)}
    >
      {partsOf(backfill)
        .filter(part => part.value > 0)
        .map(part => (
          <span
            key={part.name}
            style={{ width: `max(2px, ${(part.value / backfill.total) * 100}%)` }}
            className={cx(
              'h-full transition-[width]',
              part.fill,
              part.name === 'running' && 'motion-safe:animate-skeleton',
            )}
          />
        ))}
    </span>
  )
}

/** The numbers of the progress bar as text, each in its colour. */
export function ProgressWords({ backfill }: { backfill: Backfill }) {
  const left = {
    name: backfill.status === 'cancelled' ? 'never run' : 'not yet run',
    value: backfill.remaining,
    fill: 'bg-line-strong',
  }
  return (
    <ul aria-label="Fires" className="flex flex-wrap gap-x-4 gap-y-1 text-sm">
      {[...partsOf(backfill), left]
        .filter(part => part.value > 0)
        .map(part => (
          <li key={part.name} className="flex items-center gap-1.5">
            <span aria-hidden="true" className={cx('size-2 rounded-[2px]', part.fill)} />
            {count(part.value)} {part.name}
          </li>
        ))}
    </ul>
  )
}
