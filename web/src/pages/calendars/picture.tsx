import type { Zone } from '@/lib/time'
import { percent } from '@/lib/time'
import { cx } from '@/ui/cx'
import { type Day, type MonthView, monthName, pieceText, shortPieceText } from './closed'

const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
const MAX_LINES = 2

/** Describes a day for its tooltip and for screen readers. */
function dayText(day: Day, zone: Zone): string {
  if (day.pieces.length === 0) return 'open'
  const texts = day.pieces.slice(0, 6).map(piece => `${pieceText(piece, day.period, zone)} ${piece.closed.reason}`)
  return `closed ${texts.join('; ')}${day.pieces.length > 6 ? `; and ${day.pieces.length - 6} more` : ''}`
}

/** A month. Each day has a bar of 24 hours with closed times hatched, and the reasons below. */
export function MonthPicture({ month, zone, now }: { month: MonthView; zone: Zone; now: number }) {
  return (
    <div className="overflow-hidden">
      <div aria-hidden="true" className="grid grid-cols-7 border-b">
        {WEEKDAYS.map(day => (
          <div key={day} className="label px-2 py-1.5">
            {day}
          </div>
        ))}
      </div>
      <ol aria-label={monthName(month.period.from, zone)} className="grid grid-cols-7 gap-px bg-line">
        {Array.from({ length: month.lead }, (_, i) => (
          <li key={`lead-${i + 1}`} aria-hidden="true" className="bg-sunken" />
        ))}
        {month.days.map(day => (
          <MonthDay key={day.period.from} day={day} zone={zone} now={now} />
        ))}
        {Array.from({ length: (7 - ((month.lead + month.days.length) % 7)) % 7 }, (_, i) => (
          <li key={`trail-${i + 1}`} aria-hidden="true" className="bg-sunken" />
        ))}
      </ol>
    </div>
  )
}

function MonthDay({ day, zone, now }: { day: Day; zone: Zone; now: number }) {
  const isToday = day.period.from <= now && now < day.period.to
  const whole = day.closedShare >= 0.9999
  const text = dayText(day, zone)
  return (
    <li
      title={text}
      className={cx(
        'relative flex min-h-16 min-w-0 flex-col gap-1.5 p-1.5 sm:min-h-24 sm:p-2',
        whole ? 'hatch bg-sunken' : 'bg-surface',
        isToday && 'shadow-[inset_0_2px_0_var(--accent)]',
      )}
    >
      <span className="flex items-baseline justify-between gap-1">
        <span className={cx('text-xs', isToday ? 'font-semibold text-accent' : 'font-medium')}>{day.number}</span>
        {isToday && <span className="hidden text-2xs text-accent sm:inline">today</span>}
      </span>
      <span className="sr-only">: {text}</span>
      {!whole && day.pieces.length > 0 && <HourBar day={day} />}
      <span aria-hidden="true" className="hidden min-w-0 sm:grid">
        {day.pieces.slice(0, MAX_LINES).map(piece => (
          <span key={piece.closed.from} className="truncate text-2xs text-ink-2">
            {shortPieceText(piece, day.period, zone)} {shortReason(piece.closed.reason)}
          </span>
        ))}
        {day.pieces.length > MAX_LINES && (
          <span className="truncate text-2xs text-ink-3">{day.pieces.length - MAX_LINES} more</span>
        )}
      </span>
    </li>
  )
}

/** Shortens a reason for narrow places: `weekend (58h from '0 22 * * FRI' on)` becomes `weekend`. */
function shortReason(reason: string): string {
  return /^(.+?) \(.*\)$/.exec(reason)?.[1] ?? ''
}

/** The 24 hours of a day, from left to right. */
function HourBar({ day }: { day: Day }) {
  return (
    <svg aria-hidden="true" viewBox="0 0 100 4" preserveAspectRatio="none" className="block h-1.5 w-full">
      <rect width={100} height={4} className="fill-hover" />
      {day.pieces.map(piece => (
        <rect
          key={piece.closed.from}
          x={piece.from * 100}
          width={Math.max(0.8, (piece.to - piece.from) * 100)}
          height={4}
          className="fill-ink-3"
        />
      ))}
    </svg>
  )
}

/** Twelve small months. The filled part of a day is the part of it that is closed. */
export function YearPicture({
  months,
  zone,
  now,
  onOpen,
}: {
  months: readonly MonthView[]
  zone: Zone
  now: number
  onOpen: (month: number) => void
}) {
  return (
    <div className="grid grid-cols-2 gap-x-6 gap-y-5 p-4 sm:grid-cols-3 xl:grid-cols-4 3xl:grid-cols-6">
      {months.map(month => (
        <SmallMonth
          key={month.period.from}
          month={month}
          zone={zone}
          now={now}
          onOpen={() => onOpen(month.period.from)}
        />
      ))}
    </div>
  )
}

function SmallMonth({ month, zone, now, onOpen }: { month: MonthView; zone: Zone; now: number; onOpen: () => void }) {
  const name = monthName(month.period.from, zone)
  const share = month.days.reduce((sum, day) => sum + day.closedShare, 0) / month.days.length
  return (
    <section className="grid content-start gap-1.5">
      <h3 className="flex items-baseline justify-between gap-2 text-sm">
        <button type="button" onClick={onOpen} className="rounded-sm font-medium hover:text-accent">
          {name}
        </button>
        <span className="whitespace-nowrap text-2xs text-ink-3" title="closed">
          {share === 0 ? 'open' : `${percent(share, 0)}`}
        </span>
      </h3>
      <div className="grid grid-cols-7 gap-0.5">
        {Array.from({ length: month.lead }, (_, i) => (
          <span key={`lead-${i + 1}`} />
        ))}
        {month.days.map(day => (
          <span
            key={day.period.from}
            title={`${day.number} ${name}: ${dayText(day, zone)}`}
            className={cx(
              'relative aspect-square overflow-hidden rounded-[2px] bg-hover',
              day.period.from <= now && now < day.period.to && 'outline-2 outline-accent',
            )}
          >
            {day.closedShare > 0 && (
              <span
                style={{ height: `${Math.max(12, day.closedShare * 100)}%` }}
                className="absolute inset-x-0 bottom-0 bg-ink-3"
              />
            )}
          </span>
        ))}
      </div>
    </section>
  )
}

/** A bar of the coming weeks for a list. */
export function ClosedStrip({
  closed,
  period,
}: {
  closed: readonly { from: number; to: number }[]
  period: { from: number; to: number }
}) {
  const x = (at: number) =>
    ((Math.min(Math.max(at, period.from), period.to) - period.from) / (period.to - period.from)) * 100
  return (
    <svg aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none" className="block h-2.5 w-full rounded-[2px]">
      <rect width={100} height={8} className="fill-hover" />
      {closed.map(item => (
        <rect
          key={item.from}
          x={x(item.from)}
          width={Math.max(0.3, x(item.to) - x(item.from))}
          height={8}
          className="fill-ink-3"
        />
      ))}
    </svg>
  )
}
