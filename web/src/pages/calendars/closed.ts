import type { ClosedTime } from '@/api/types'
import { DAY_NAMES, MONTH_NAMES } from '@/lib/calendar-names'
import { partsOf, type Zone } from '@/lib/time'
import { type Period, partsOfPeriod, periodOf, weekday } from '../job/ledger/periods'

/**
 * Converts the closed times of a calendar to the data of the pictures. Pure functions: the caller passes the current
 * time.
 */

export type Closed = { from: number; to: number; reason: string; entry: number }
/** A closed part of a day. `from` and `to` are fractions of the day. */
export type Piece = { from: number; to: number; closed: Closed }
export type Day = { period: Period; number: number; closedShare: number; pieces: readonly Piece[] }
export type MonthView = { period: Period; lead: number; days: readonly Day[] }

export function closedOf(times: readonly ClosedTime[]): Closed[] {
  return times.map(item => ({
    from: Date.parse(item.from),
    to: Date.parse(item.to),
    reason: item.reason,
    entry: item.entry,
  }))
}

export type Now = {
  closed: boolean
  reason: string | null /** The time of the next change; null if none is known. */
  until: number | null
}

/** Returns whether a calendar is closed now, and until when. `end` is the end of the known closed times. */
export function stateAt(closed: readonly Closed[], now: number, end: number): Now {
  const index = closed.findIndex(item => item.to > now)
  const current = closed[index]
  if (current === undefined) return { closed: false, reason: null, until: null }
  if (current.from > now) return { closed: false, reason: null, until: current.from }
  let until = current.to
  for (const next of closed.slice(index + 1)) {
    if (next.from > until) break
    until = Math.max(until, next.to)
  }
  return { closed: true, reason: current.reason, until: until >= end ? null : until }
}

/** Returns the days of a month with their closed parts. */
export function monthOf(at: number, zone: Zone, closed: readonly Closed[]): MonthView {
  const period = periodOf('month', at, zone)
  return {
    period,
    lead: weekday(period.from, zone),
    days: partsOfPeriod('month', period, zone).map(day => dayOf(day, zone, closed)),
  }
}

function dayOf(period: Period, zone: Zone, closed: readonly Closed[]): Day {
  const length = period.to - period.from
  const pieces = closed
    .filter(item => item.from < period.to && item.to > period.from)
    .map(item => ({
      from: Math.max(0, (item.from - period.from) / length),
      to: Math.min(1, (item.to - period.from) / length),
      closed: item,
    }))
  const closedShare = pieces.reduce((sum, piece) => sum + piece.to - piece.from, 0)
  return { period, number: Number(partsOf(period.from, zone).day), closedShare: Math.min(1, closedShare), pieces }
}

/** Returns the range of the year that contains an instant, or of the year that is `step` years later. */
export function yearPeriod(at: number, zone: Zone, step = 0): Period {
  const january = periodOf('month', at, zone, 1 - Number(partsOf(at, zone).month) + 12 * step)
  return { from: january.from, to: periodOf('month', january.from, zone, 12).from }
}

/** Returns the twelve months of the year that contains an instant. */
export function yearOf(at: number, zone: Zone, closed: readonly Closed[]): MonthView[] {
  const { from } = yearPeriod(at, zone)
  return Array.from({ length: 12 }, (_, month) => monthOf(periodOf('month', from, zone, month).from, zone, closed))
}

/** Formats a closed part as `14:00–24:00` or `all day`. */
export function pieceText(piece: Piece, day: Period, zone: Zone): string {
  if (piece.from <= 0 && piece.to >= 1) return 'all day'
  return `${clock(piece.closed.from, day.from, zone, '00:00')}–${clock(piece.closed.to, day.to, zone, '24:00')}`
}

/**
 * Formats a closed part for narrow places: `–08:00` if it begins at midnight, `18:00–` if it ends at midnight, an empty
 * text for a whole day.
 */
export function shortPieceText(piece: Piece, day: Period, zone: Zone): string {
  const text = pieceText(piece, day, zone)
  return text === 'all day' ? '' : text.replace(/^00:00(?=–)/, '').replace(/–24:00$/, '–')
}

function clock(at: number, edge: number, zone: Zone, edgeText: string): string {
  if (edgeText === '00:00' ? at <= edge : at >= edge) return edgeText
  const p = partsOf(at, zone)
  return `${p.hour}:${p.minute}`
}

export function monthName(at: number, zone: Zone): string {
  return MONTH_NAMES[Number(partsOf(at, zone).month) - 1] ?? ''
}

/** Formats an instant as `Sun 20 Dec 2026 00:00` in the zone of the calendar. */
export function longTime(at: number, zone: Zone): string {
  const p = partsOf(at, zone)
  const seconds = p.second === '00' ? '' : `:${p.second}`
  const day = DAY_NAMES[(weekday(at, zone) + 1) % 7]?.slice(0, 3)
  return `${day} ${Number(p.day)} ${monthName(at, zone).slice(0, 3)} ${p.year} ${p.hour}:${p.minute}${seconds}`
}
