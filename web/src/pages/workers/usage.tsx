import { cx } from '@/ui/cx'

/** A bar of the used part of a capacity. Up to 16 slots are drawn one by one. */
export function Usage({
  used,
  total,
  label,
  idle = false,
  className,
}: {
  used: number
  total: number
  label: string
  /** True if the worker accepts no new runs, so that its free slots cannot be used. */
  idle?: boolean
  className?: string
}) {
  const share = total <= 0 ? 0 : Math.min(1, used / total)
  const single = Number.isInteger(used) && total <= 16
  return (
    <span
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(total, 0)}
      aria-valuenow={Math.min(used, total)}
      className={cx('flex h-2 min-w-8 overflow-hidden rounded-[2px]', single ? 'gap-px' : 'bg-hover', className)}
    >
      {single ? (
        Array.from({ length: total }, (_, at) => (
          <span
            key={`slot-${at + 1}`}
            className={cx(
              'h-full flex-1',
              at < used ? 'bg-live' : idle ? 'border border-line-strong' : 'bg-line-strong/60',
            )}
          />
        ))
      ) : (
        <span style={{ width: `${share * 100}%` }} className="h-full bg-live transition-[width]" />
      )}
    </span>
  )
}
