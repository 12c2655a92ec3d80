import { memo } from 'react'
import { zone } from '@/lib/settings'
import { TONE_FILL, TONE_TEXT, VERDICTS } from '@/lib/states'
import { dateTime, duration, plural } from '@/lib/time'
import { cx } from '@/ui/cx'
import { type Bucket, type Cell, type Counts, VERDICT_ORDER } from './ledger'

/** One cell. It is hollow if the fire has no run, and has a line at the bottom if the run failed. */
export const CellView = memo(function CellView({
  cell,
  id,
  selected,
  reachable,
}: {
  cell: Cell
  id: string
  selected: boolean
  /** True for the one cell that Tab reaches. */
  reachable: boolean
}) {
  const { verdict, status, runId } = cell.item
  const look = VERDICTS[verdict]
  const failed = status === 'failed' || status === 'dead'
  return (
    <button
      type="button"
      data-cell={id}
      tabIndex={reachable ? 0 : -1}
      aria-label={cellText(cell)}
      aria-pressed={selected}
      title={cellText(cell)}
      className={cx(
        'relative h-3 min-w-2.5 shrink-0 rounded-[2px] hover:outline hover:outline-2 hover:outline-ink',
        runId === null || verdict === 'open' ? cx('border border-current', TONE_TEXT[look.tone]) : TONE_FILL[look.tone],
        failed && 'border-bad border-b-[4px]',
        cell.count > 1 && 'w-9 px-0.5 text-[9px] leading-[10px]',
        selected && 'outline outline-2 outline-accent',
      )}
    >
      {cell.count > 1 && `×${cell.count > 999 ? '999+' : cell.count}`}
    </button>
  )
})

export function cellText(cell: Cell): string {
  const { item } = cell
  const at = dateTime(cell.at, zone.get())
  const until = cell.count > 1 ? ` to ${dateTime(cell.until, zone.get())}, ${plural(cell.count, 'fire')}` : ''
  const late = item.lateMs === null ? '' : `, ${duration(item.lateMs)} late`
  const ended = item.status === 'failed' || item.status === 'dead' ? `, ${item.status}` : ''
  return `${at}${until}: ${VERDICTS[item.verdict].label}${late}${ended}${item.reason === '' ? '' : `: ${item.reason.slice(0, 200)}`}`
}

/** A bar with the proportions of the verdicts of a period. */
export function CountBar({ counts, total, className }: { counts: Counts; total: number; className?: string }) {
  const shown = VERDICT_ORDER.filter(verdict => (counts[verdict] ?? 0) > 0)
  return (
    <span aria-hidden="true" className={cx('flex h-2 gap-px overflow-hidden rounded-[2px]', className)}>
      {shown.map(verdict => (
        <span
          key={verdict}
          style={{ width: `max(3px, ${((counts[verdict] ?? 0) / Math.max(1, total)) * 100}%)` }}
          className={cx('shrink', TONE_FILL[VERDICTS[verdict].tone], verdict === 'open' && 'opacity-50')}
        />
      ))}
    </span>
  )
}

export function countsText(bucket: Bucket): string {
  const parts = VERDICT_ORDER.filter(verdict => (bucket.counts[verdict] ?? 0) > 0).map(
    verdict => `${bucket.counts[verdict]} ${VERDICTS[verdict].label.toLowerCase()}`,
  )
  return parts.length === 0 ? 'no fires' : parts.join(', ')
}
