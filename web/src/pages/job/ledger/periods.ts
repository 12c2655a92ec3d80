import { partsOf, type Zone } from '@/lib/time'

/** Months, days and hours of a time zone as ranges of instants. Days of clock changes have 23 or 25 hours. */

export type Level = 'month' | 'day' | 'hour'
export type Period = { from: number; to: number }

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** What the clocks of a zone add to UTC at an instant, in milliseconds. */
export function offsetAt(at: number, zone: Zone): number {
  const p = partsOf(at, zone)
  const shown = Date.UTC(+p.year, +p.month - 1, +p.day, +p.hour, +p.minute, +p.second)
  return shown - Math.floor(at / 1000) * 1000
}

/** The instant at which a zone's clocks show this. A time that does not exist gives the instant of the change. */
function instantOf(year: number, month: number, day: number, zone: Zone): number {
  const local = Date.UTC(year, month, day)
  const first = local - offsetAt(local, zone)
  const second = local - offsetAt(first, zone)
  return second
}

function dateOf(at: number, zone: Zone): { year: number; month: number; day: number } {
  const p = partsOf(at, zone)
  return { year: +p.year, month: +p.month - 1, day: +p.day }
}

/** The month, day or hour that contains an instant. `step` moves by that many. */
export function periodOf(level: Level, at: number, zone: Zone, step = 0): Period {
  const { year, month, day } = dateOf(at, zone)
  if (level === 'month')
    return { from: instantOf(year, month + step, 1, zone), to: instantOf(year, month + step + 1, 1, zone) }
  if (level === 'day')
    return { from: instantOf(year, month, day + step, zone), to: instantOf(year, month, day + step + 1, zone) }
  // Offsets are multiples of a quarter of an hour: the clock's hour begins when its minutes are 0.
  const offset = offsetAt(at, zone)
  const from = Math.floor((at + offset) / HOUR) * HOUR - offset + step * HOUR
  return { from, to: from + HOUR }
}

/** A period in its parts: a month in days, a day in hours, an hour in minutes. */
export function partsOfPeriod(level: Level, period: Period, zone: Zone): Period[] {
  const parts: Period[] = []
  let from = period.from
  while (from < period.to && parts.length < 100) {
    const to = level === 'month' ? periodOf('day', from, zone).to : from + (level === 'day' ? HOUR : MINUTE)
    parts.push({ from, to: Math.min(to, period.to) })
    from = to
  }
  return parts
}

/** 0 for Monday. */
export function weekday(at: number, zone: Zone): number {
  return (new Date(at + offsetAt(at, zone)).getUTCDay() + 6) % 7
}

/** The level below, or null. */
export function finer(level: Level): Level | null {
  return level === 'month' ? 'day' : level === 'day' ? 'hour' : null
}

export function coarser(level: Level): Level | null {
  return level === 'hour' ? 'day' : level === 'day' ? 'month' : null
}
