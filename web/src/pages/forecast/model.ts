import { partsOf, type Zone } from '@/lib/time'

/** Groups the forecast by the hours of a time zone. Pure functions. */

export type Bucket = {
  from: string
  to: string
  fires: number
  runSeconds: number
  capacitySeconds: number
  load: number | null
  jobs: number
}

/** One hour of a day in the time zone. When the clocks go back, one such hour lasts two hours. */
export type HourCell = {
  day: string
  hour: number
  from: number
  to: number
  fires: number
  runSeconds: number
  capacitySeconds: number
}

export type Week = { days: string[]; cells: Map<string, HourCell> }

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Returns the offset of a zone from UTC at an instant, in minutes. */
export function offsetMinutes(at: number, zone: Zone): number {
  const p = partsOf(at, zone)
  const shown = Date.UTC(
    Number(p.year),
    Number(p.month) - 1,
    Number(p.day),
    Number(p.hour),
    Number(p.minute),
    Number(p.second),
  )
  return Math.round((shown - Math.floor(at / 1000) * 1000) / MINUTE)
}

/**
 * Returns the longest bucket with which each hour of the zone begins at the start of a bucket. The API divides full
 * hours of UTC.
 */
export function bucketFor(zone: Zone, from: number, to: number): '1h' | '30m' | '15m' {
  const offsets = [offsetMinutes(from, zone), offsetMinutes(to, zone)]
  if (offsets.every(minutes => minutes % 60 === 0)) return '1h'
  return offsets.every(minutes => minutes % 30 === 0) ? '30m' : '15m'
}

export function cellKey(day: string, hour: number): string {
  return `${day} ${hour}`
}

export function weekOf(buckets: readonly Bucket[], zone: Zone): Week {
  const days: string[] = []
  const cells = new Map<string, HourCell>()
  for (const bucket of buckets) {
    const [from, to] = [Date.parse(bucket.from), Date.parse(bucket.to)]
    const p = partsOf(from, zone)
    const [day, hour] = [`${p.year}-${p.month}-${p.day}`, Number(p.hour)]
    if (days.at(-1) !== day) days.push(day)
    const key = cellKey(day, hour)
    const known = cells.get(key)
    cells.set(key, {
      day,
      hour,
      from: Math.min(known?.from ?? from, from),
      to: Math.max(known?.to ?? to, to),
      fires: (known?.fires ?? 0) + bucket.fires,
      runSeconds: (known?.runSeconds ?? 0) + bucket.runSeconds,
      capacitySeconds: (known?.capacitySeconds ?? 0) + bucket.capacitySeconds,
    })
  }
  return { days, cells }
}

export function loadOf(cell: { runSeconds: number; capacitySeconds: number }): number | null {
  return cell.capacitySeconds === 0 ? null : cell.runSeconds / cell.capacitySeconds
}

/**
 * The number of colour levels above 0, which means no fires. The level of a load is relative to the capacity, that of a
 * number of fires to the largest number.
 */
export const LEVELS = 5

export function levelOf(value: number, max: number): number {
  if (value <= 0 || max <= 0) return 0
  return Math.min(LEVELS, Math.max(1, Math.ceil(Math.sqrt(value / max) * LEVELS)))
}

/** Formats a load as `34 %`, `<1 %` or `212 %`. */
export function loadText(load: number | null): string {
  if (load === null) return '–'
  if (load > 0 && load < 0.01) return '<1 %'
  return `${Math.round(load * 100)} %`
}

/** Returns the mean number of slots that the runs of a bucket need. */
export function slotsNeeded(bucket: { from: string; to: string; runSeconds: number }): number {
  return bucket.runSeconds / ((Date.parse(bucket.to) - Date.parse(bucket.from)) / 1000)
}

/** Returns the hour of the zone that contains an instant, for a forecast by the minute. */
export function hourAround(at: number, zone: Zone): { from: number; to: number } {
  const minute = Math.floor(at / MINUTE) * MINUTE
  const from = minute - Number(partsOf(minute, zone).minute) * MINUTE
  return { from, to: from + HOUR }
}

const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Formats the day `2026-11-19` as `Thu` and `19 Nov`. */
export function dayNames(day: string): { weekday: string; date: string } {
  const at = new Date(`${day}T12:00:00Z`)
  return {
    weekday: WEEKDAYS[at.getUTCDay()] ?? '',
    date: `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()] ?? ''}`,
  }
}

/** Formats a range as `Thu 19 Nov, 03:00 to 04:00` in the zone. */
export function spanText(from: number, to: number, zone: Zone): string {
  const a = partsOf(from, zone)
  const b = partsOf(to, zone)
  const { weekday, date } = dayNames(`${a.year}-${a.month}-${a.day}`)
  return `${weekday} ${date}, ${a.hour}:${a.minute} to ${b.hour}:${b.minute}`
}
