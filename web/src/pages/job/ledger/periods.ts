import { partsOf, type Zone } from '@/lib/time'

/** Months, days and hours of a time zone as ranges of instants. A day with a clock change has 23 or 25 hours. */

export type Level = 'month' | 'day' | 'hour'
export type Period = { from: number; to: number }

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Returns the offset of a zone from UTC at an instant, in milliseconds. */
export function offsetAt(at: number, zone: Zone): number {
  const p = partsOf(at, zone)
  const shown = Date.UTC(+p.year, +p.month - 1, +p.day, +p.hour, +p.minute, +p.second)
  return shown - Math.floor(at / 1000) * 1000
}

/**
 * Returns the instant of midnight on a date in a zone. If that midnight does not exist, returns the instant of the
 * clock change.
 */
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

/** Returns the month, day or hour that contains an instant, or the one that is `step` periods later. */
export function periodOf(level: Level, at: number, zone: Zone, step = 0): Period {
  const { year, month, day } = dateOf(at, zone)
  if (level === 'month')
    return { from: instantOf(year, month + step, 1, zone), to: instantOf(year, month + step + 1, 1, zone) }
  if (level === 'day')
    return { from: instantOf(year, month, day + step, zone), to: instantOf(year, month, day + step + 1, zone) }
  // Offsets are multiples of 15 minutes, so an hour of the zone may begin within an hour of UTC.
  const offset = offsetAt(at, zone)
  const from = Math.floor((at + offset) / HOUR) * HOUR - offset + step * HOUR
  return { from, to: from + HOUR }
}

/** Returns the parts of a period: the days of a month, the hours of a day, or the minutes of an hour. */
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

/** Returns the day of the week of an instant; 0 is Monday. */
export function weekday(at: number, zone: Zone): number {
  return (new Date(at + offsetAt(at, zone)).getUTCDay() + 6) % 7
}

/** Returns the next finer level, or null if there is none. */
export function finer(level: Level): Level | null {
  return level === 'month' ? 'day' : level === 'day' ? 'hour' : null
}

export function coarser(level: Level): Level | null {
  return level === 'hour' ? 'day' : level === 'day' ? 'month' : null
}
