import { type KeyboardEvent, useRef } from 'react'
import { useWidth } from '@/components/data-table'
import { zone } from '@/lib/settings'
import { plural, shortCount } from '@/lib/time'
import { cx } from '@/ui/cx'
import { cellKey, dayNames, type HourCell, LEVELS, levelOf, loadOf, loadText, spanText, type Week } from './model'
import type { Measure } from './search'

const HOURS = Array.from({ length: 24 }, (_, hour) => hour)
/** Below this width, days are columns and hours are rows, so that the cells are large enough for touch. */
const UPRIGHT_BELOW = 480
const TEXT_FROM_WIDTH = 880

/**
 * The percentage of the accent colour in a cell, by level. Dark text is readable on all levels but the last, which has
 * light text.
 */
const MIX = [0, 10, 22, 36, 50, 100]

function fill(level: number): string {
  return level === 0 ? 'var(--sunken)' : `color-mix(in oklab, var(--accent) ${MIX[level] ?? 100}%, var(--surface))`
}

/** Shows each hour of the coming week as a cell. A click opens the hour; the arrow keys move between cells. */
export function HeatMap({
  week,
  measure,
  now,
  chosen,
  onChoose,
}: {
  week: Week
  measure: Measure
  now: number
  chosen: number | undefined
  onChoose: (cell: HourCell) => void
}) {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const upright = width > 0 && width < UPRIGHT_BELOW
  const cells = [...week.cells.values()]
  const max = measure === 'load' ? 1 : Math.max(0, ...cells.map(cell => cell.fires))
  const shown = { measure, max, withText: upright ? week.days.length <= 8 : width >= TEXT_FROM_WIDTH, chosen, now }
  const first = cells.find(cell => cell.from === chosen) ?? cells[0]
  const view = (day: string, hour: number) => {
    const cell = week.cells.get(cellKey(day, hour))
    return cell === undefined ? (
      <span key={cellKey(day, hour)} aria-hidden="true" />
    ) : (
      <CellView key={cellKey(day, hour)} cell={cell} reachable={cell === first} onChoose={onChoose} {...shown} />
    )
  }
  return (
    <div ref={box} role="group" aria-label="Hours of the coming week" onKeyDown={moveFocus} className="min-w-0">
      {upright ? (
        <div
          style={{ gridTemplateColumns: `2.5rem repeat(${week.days.length}, minmax(0, 1fr))` }}
          className="grid gap-0.5"
        >
          <span />
          {week.days.map(day => (
            <DayName key={day} day={day} />
          ))}
          {HOURS.map(hour => [<HourName key={hour} hour={hour} always />, ...week.days.map(day => view(day, hour))])}
        </div>
      ) : (
        <div style={{ gridTemplateColumns: '5.25rem repeat(24, minmax(0, 1fr))' }} className="grid gap-0.5">
          <span />
          {HOURS.map(hour => (
            <HourName key={hour} hour={hour} always={width >= TEXT_FROM_WIDTH} />
          ))}
          {week.days.map(day => [<DayName key={day} day={day} inLine />, ...HOURS.map(hour => view(day, hour))])}
        </div>
      )}
    </div>
  )
}

function DayName({ day, inLine = false }: { day: string; inLine?: boolean }) {
  const { weekday, date } = dayNames(day)
  return (
    <span
      aria-hidden="true"
      className={cx('self-center text-xs', inLine ? 'flex gap-1.5 whitespace-nowrap' : 'grid pb-1 text-center')}
    >
      <span className="font-medium">{weekday}</span>
      <span className="text-ink-3">{inLine ? date : date.split(' ')[0]}</span>
    </span>
  )
}

function HourName({ hour, always }: { hour: number; always: boolean }) {
  return (
    <span aria-hidden="true" className="self-center pb-0.5 text-center text-2xs text-ink-3">
      {always || hour % 3 === 0 ? String(hour).padStart(2, '0') : ''}
    </span>
  )
}

function CellView({
  cell,
  measure,
  max,
  withText,
  chosen,
  now,
  reachable,
  onChoose,
}: {
  cell: HourCell
  measure: Measure
  max: number
  withText: boolean
  chosen: number | undefined
  now: number
  /** True for the one cell that Tab reaches. */
  reachable: boolean
  onChoose: (cell: HourCell) => void
}) {
  const load = loadOf(cell)
  const over = load !== null && load > 1
  const level = levelOf(measure === 'load' ? (load ?? 0) : cell.fires, max)
  const text = measure === 'load' ? loadText(load).replace(' ', '') : shortCount(cell.fires)
  const label = `${spanText(cell.from, cell.to, zone.get())}: ${plural(cell.fires, 'fire')}, ${
    load === null ? 'no capacity' : `${loadText(load)} of the capacity`
  }${over ? ', too much' : ''}`
  return (
    <button
      type="button"
      data-cell=""
      tabIndex={reachable ? 0 : -1}
      aria-label={label}
      aria-pressed={cell.from === chosen}
      title={label}
      onClick={() => onChoose(cell)}
      style={over ? undefined : { backgroundColor: fill(level) }}
      className={cx(
        'relative h-8 min-w-0 rounded-[3px] text-2xs leading-none outline-offset-1 hover:outline hover:outline-2 hover:outline-ink',
        over && 'bg-bad font-semibold text-surface dark:text-sunken',
        !over && level === LEVELS && 'text-on-accent',
        cell.from <= now && now < cell.to && 'border-2 border-ink border-dashed',
        cell.from === chosen && 'outline outline-2 outline-accent',
      )}
    >
      {cell.fires === 0 ? '' : withText ? text : over ? '!' : ''}
    </button>
  )
}

function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const from = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>('[data-cell]') : null
  if (from === null || !event.key.startsWith('Arrow')) return
  event.preventDefault()
  const here = from.getBoundingClientRect()
  const isSideways = event.key === 'ArrowLeft' || event.key === 'ArrowRight'
  const sign = event.key === 'ArrowRight' || event.key === 'ArrowDown' ? 1 : -1
  const found = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-cell]')]
    .map(cell => ({ cell, place: cell.getBoundingClientRect() }))
    .filter(({ place }) =>
      isSideways ? Math.abs(place.top - here.top) < 4 : Math.abs(place.left - here.left) < here.width / 2,
    )
    .map(({ cell, place }) => ({
      cell,
      distance: sign * (isSideways ? place.left - here.left : place.top - here.top),
    }))
    .filter(({ distance }) => distance > 2)
    .toSorted((a, b) => a.distance - b.distance)[0]
  found?.cell.focus()
}

/** Explains the colours. */
export function HeatLegend({ measure, max }: { measure: Measure; max: number }) {
  return (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1 text-ink-2 text-xs">
      <span className="flex items-center gap-1.5">
        {measure === 'load' ? 'nothing' : '0'}
        <span aria-hidden="true" className="flex gap-0.5">
          {Array.from({ length: LEVELS + 1 }, (_, level) => (
            <span
              key={`level-${level + 1}`}
              style={{ backgroundColor: fill(level) }}
              className="size-3 rounded-[2px]"
            />
          ))}
        </span>
        {measure === 'load' ? 'all slots in use' : plural(max, 'fire')}
      </span>
      <span className="flex items-center gap-1.5">
        <span
          aria-hidden="true"
          className="flex size-3 items-center justify-center rounded-[2px] bg-bad font-semibold text-2xs text-surface leading-none dark:text-sunken"
        >
          !
        </span>
        more than the capacity
      </span>
      <span className="flex items-center gap-1.5">
        <span aria-hidden="true" className="size-3 rounded-[2px] border-2 border-ink border-dashed" />
        now
      </span>
    </p>
  )
}
