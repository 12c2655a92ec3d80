import type { KeyboardEvent, MouseEvent } from 'react'
import { serverNow } from '@/lib/clock'
import { VERDICTS } from '@/lib/states'
import { count, partsOf, shortCount, type Zone } from '@/lib/time'
import { cx } from '@/ui/cx'
import { CellView, CountBar, countsText } from './cells'
import { type Bucket, type Cell, worstOf } from './ledger'
import { finer, type Level, weekday } from './periods'

const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
/** Maximum number of cells that a day of a month shows. A day with more fires shows proportions. */
const MAX_DAY_CELLS = 48

type Props = {
  level: Level
  buckets: readonly Bucket[]
  isSummed: boolean
  zone: Zone
  selected: Cell | null
  onPick: (cell: Cell) => void
  onOpen: (level: Level, at: number) => void
}

/** Shows the parts of a period, with a cell for each fire. Tab reaches one cell; the arrow keys move between cells. */
export function Calendar(props: Props) {
  const { buckets, level, onPick } = props
  const cellOf = (target: EventTarget): Cell | null => {
    const id = target instanceof Element ? target.closest<HTMLElement>('[data-cell]')?.dataset.cell : undefined
    const [bucket, cell] = (id ?? '').split('.').map(Number)
    return id === undefined ? null : (buckets[bucket ?? -1]?.cells[cell ?? -1] ?? null)
  }
  const click = (event: MouseEvent) => {
    const cell = cellOf(event.target)
    if (cell !== null) onPick(cell)
  }
  return (
    <div role="group" aria-label="Due times" onClick={click} onKeyDown={moveFocus}>
      {level === 'month' ? <Month {...props} /> : <Rows {...props} />}
    </div>
  )
}

/** Moves the focus: left and right to the adjacent cell, up and down to the cell above or below. */
function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const from = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>('[data-cell]') : null
  if (from === null || !event.key.startsWith('Arrow')) return
  event.preventDefault()
  const cells = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-cell]')]
  const index = cells.indexOf(from)
  const forward = event.key === 'ArrowRight' || event.key === 'ArrowDown'
  if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
    cells[index + (forward ? 1 : -1)]?.focus()
    return
  }
  const here = from.getBoundingClientRect()
  const others = forward ? cells.slice(index + 1) : cells.slice(0, index).toReversed()
  const row = others.find(cell => Math.abs(cell.getBoundingClientRect().top - here.top) > 6)
  if (row === undefined) return
  const top = row.getBoundingClientRect().top
  const inRow = others.filter(cell => Math.abs(cell.getBoundingClientRect().top - top) <= 2)
  const nearest = inRow.toSorted((a, b) => distance(a, here.left) - distance(b, here.left))[0]
  nearest?.focus()
}

function distance(element: HTMLElement, left: number): number {
  return Math.abs(element.getBoundingClientRect().left - left)
}

function Cells({
  bucket,
  index,
  selected,
  first,
}: {
  bucket: Bucket
  index: number
  selected: Cell | null
  first: boolean
}) {
  return bucket.cells.map((cell, at) => (
    <CellView
      key={`${cell.at}-${at}`}
      id={`${index}.${at}`}
      cell={cell}
      selected={cell === selected}
      reachable={first && at === 0}
    />
  ))
}

function Month({ buckets, zone, selected, isSummed, onOpen }: Props) {
  const now = serverNow()
  const lead = buckets[0] === undefined ? 0 : weekday(buckets[0].period.from, zone)
  const first = buckets.findIndex(bucket => bucket.cells.length > 0 && bucket.cells.length <= MAX_DAY_CELLS)
  return (
    <div className="panel overflow-hidden">
      <div aria-hidden="true" className="grid grid-cols-7 border-b">
        {DAYS.map(day => (
          <div key={day} className="label px-2 py-1.5">
            {day}
          </div>
        ))}
      </div>
      <div className="grid grid-cols-7 gap-px bg-line">
        {Array.from({ length: lead }, (_, i) => (
          <div key={`lead-${i + 1}`} className="bg-sunken" />
        ))}
        {buckets.map((bucket, index) => {
          const few = !isSummed && bucket.cells.length <= MAX_DAY_CELLS
          const worst = worstOf(bucket.counts)
          const isToday = bucket.period.from <= now && now < bucket.period.to
          const isFuture = bucket.period.from > now
          return (
            <div
              key={bucket.period.from}
              className={cx(
                'flex min-h-16 min-w-0 flex-col gap-1.5 p-1.5 sm:min-h-24 sm:p-2',
                isFuture ? 'bg-sunken' : 'bg-surface',
                isToday && 'shadow-[inset_0_2px_0_var(--accent)]',
              )}
            >
              <button
                type="button"
                onClick={() => onOpen('day', bucket.period.from)}
                title={countsText(bucket)}
                className="flex items-baseline justify-between gap-1 rounded-sm text-left hover:text-accent"
              >
                <span className={cx('text-xs', bucket.total === 0 ? 'text-ink-3' : 'font-medium')}>
                  {Number(partsOf(bucket.period.from, zone).day)}
                  <span className="sr-only">: {countsText(bucket)}</span>
                </span>
                {bucket.total > 0 && (
                  <span aria-hidden="true" className="text-2xs text-ink-3">
                    {shortCount(bucket.total)}
                  </span>
                )}
              </button>
              {bucket.total > 0 && (
                <CountBar counts={bucket.counts} total={bucket.total} className={cx(few && 'sm:hidden')} />
              )}
              {few && (
                <div className="hidden flex-wrap gap-0.5 sm:flex">
                  <Cells bucket={bucket} index={index} selected={selected} first={index === first} />
                </div>
              )}
              {!few && worst !== null && worst !== 'on_time' && worst !== 'open' && (
                <span className="truncate text-2xs text-ink-2">
                  {shortCount(bucket.counts[worst] ?? 0)} {VERDICTS[worst].label.toLowerCase()}
                </span>
              )}
            </div>
          )
        })}
        {Array.from({ length: (7 - ((lead + buckets.length) % 7)) % 7 }, (_, i) => (
          <div key={`trail-${i + 1}`} className="bg-sunken" />
        ))}
      </div>
    </div>
  )
}

/** Shows the hours of a day or the minutes of an hour as rows, from the first to the last row with a fire. */
function Rows({ level, buckets, zone, selected, isSummed, onOpen }: Props) {
  const used = buckets.flatMap((bucket, index) => (bucket.total > 0 ? [index] : []))
  const first = used[0] ?? 0
  const last = used.at(-1) ?? 0
  const below = finer(level)
  const firstWithCells = buckets.findIndex(bucket => bucket.cells.length > 0)
  return (
    <div className="panel divide-y">
      {buckets.slice(first, last + 1).map((bucket, offset) => {
        const p = partsOf(bucket.period.from, zone)
        const name = `${p.hour}:${p.minute}`
        return (
          <div
            key={bucket.period.from}
            className="grid grid-cols-[3.5rem_minmax(0,1fr)_3rem] items-start gap-3 px-4 py-1.5"
          >
            {below === null ? (
              <span className="text-ink-2 text-xs leading-4">{name}</span>
            ) : (
              <button
                type="button"
                onClick={() => onOpen(below, bucket.period.from)}
                title={countsText(bucket)}
                className="rounded-sm text-left text-ink-2 text-xs leading-4 hover:text-accent"
              >
                {name}
              </button>
            )}
            {isSummed ? (
              <CountBar counts={bucket.counts} total={bucket.total} className="mt-1" />
            ) : (
              <div className="flex min-h-4 flex-wrap items-center gap-0.5">
                <Cells
                  bucket={bucket}
                  index={first + offset}
                  selected={selected}
                  first={first + offset === firstWithCells}
                />
              </div>
            )}
            <span className="text-right text-ink-3 text-xs leading-4" title={countsText(bucket)}>
              {bucket.total === 0 ? '' : count(bucket.total)}
            </span>
          </div>
        )
      })}
    </div>
  )
}
