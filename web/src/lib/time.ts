/** Formats times and durations. Pure functions: the caller passes the current time. */

import { MONTH_NAMES } from './calendar-names'

/** A time zone: `local`, `UTC`, or an IANA name. */
export type Zone = string

const formatters = new Map<string, Intl.DateTimeFormat>()

function formatter(zone: Zone, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${zone}|${JSON.stringify(options)}`
  let found = formatters.get(key)
  if (found === undefined) {
    const timeZone = zone === 'local' ? {} : { timeZone: zone }
    found = new Intl.DateTimeFormat('en-GB', { ...options, ...timeZone, hourCycle: 'h23' })
    formatters.set(key, found)
  }
  return found
}

export type ClockParts = {
  year: string
  month: string
  day: string
  hour: string
  minute: string
  second: string
  zone: string
}

/** Returns the parts of an instant in a zone. The part `zone` is a short name, such as `CET` or `GMT+2`. */
export function partsOf(at: number, zone: Zone): ClockParts {
  const parts: ClockParts = { year: '', month: '', day: '', hour: '', minute: '', second: '', zone: '' }
  const format = formatter(zone, {
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  })
  for (const part of format.formatToParts(at)) {
    if (part.type === 'timeZoneName') parts.zone = part.value
    else if (part.type in parts) parts[part.type as keyof ClockParts] = part.value
  }
  return parts
}

/** Formats an instant as `2026-11-18 13:05:12`. */
export function dateTime(at: number, zone: Zone): string {
  const p = partsOf(at, zone)
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}`
}

/** Formats an instant as `2026-11-18 13:05:12.123 CET`, with milliseconds and zone. */
export function fullDateTime(at: number, zone: Zone): string {
  const p = partsOf(at, zone)
  const millis = String(((at % 1000) + 1000) % 1000)
    .split('.')[0]
    ?.padStart(3, '0')
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}.${millis} ${p.zone}`
}

/** Formats an instant as `13:05:12`. */
export function clockTime(at: number, zone: Zone): string {
  const p = partsOf(at, zone)
  return `${p.hour}:${p.minute}:${p.second}`
}

/**
 * Formats an instant in the shortest unambiguous form: `13:05:12` today, `Nov 17 13:05` in this year, else
 * `2025-11-17`.
 */
export function shortDateTime(at: number, now: number, zone: Zone): string {
  const p = partsOf(at, zone)
  const n = partsOf(now, zone)
  if (p.year === n.year && p.month === n.month && p.day === n.day) return `${p.hour}:${p.minute}:${p.second}`
  if (p.year !== n.year) return `${p.year}-${p.month}-${p.day}`
  return `${monthName(p.month)} ${Number(p.day)} ${p.hour}:${p.minute}`
}

/** Formats an instant as `Nov 17 13:05`, and with the year if that is not the current one. */
export function dayTime(at: number, now: number, zone: Zone): string {
  const p = partsOf(at, zone)
  const day = `${monthName(p.month)} ${Number(p.day)}`
  return `${day}${p.year === partsOf(now, zone).year ? '' : ` ${p.year}`} ${p.hour}:${p.minute}`
}

function monthName(month: string): string {
  return MONTH_NAMES[Number(month) - 1]?.slice(0, 3) ?? month
}

export function zoneName(zone: Zone): string {
  return zone === 'local' ? Intl.DateTimeFormat().resolvedOptions().timeZone : zone
}

export function isZone(zone: string): boolean {
  if (zone === 'local') return true
  try {
    new Intl.DateTimeFormat('en-GB', { timeZone: zone })
    return true
  } catch {
    return false
  }
}

/** Returns an RFC 3339 time in milliseconds. Returns null if the text is missing, empty or not a time. */
export function instant(text: string | null | undefined): number | null {
  if (!text) return null
  const at = Date.parse(text)
  return Number.isNaN(at) ? null : at
}

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Formats a duration with at most two units: `0 ms`, `840 ms`, `1.2 s`, `48 s`, `3 m 12 s`, `2 h 5 m`, `3 d 4 h`. */
export function duration(ms: number): string {
  if (ms < 0) return `-${duration(-ms)}`
  if (ms < 1) return ms === 0 ? '0 ms' : '<1 ms'
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < 9950) return `${(ms / SECOND).toFixed(1)} s`
  if (ms < 59_500) return `${Math.round(ms / SECOND)} s`
  const whole = Math.round(ms / SECOND) * SECOND
  if (whole < HOUR) return pair(whole, MINUTE, 'm', SECOND, 's')
  if (whole < DAY) return pair(Math.round(whole / MINUTE) * MINUTE, HOUR, 'h', MINUTE, 'm')
  return pair(Math.round(whole / HOUR) * HOUR, DAY, 'd', HOUR, 'h')
}

function pair(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((ms % large) / small)
  const first = `${Math.floor(ms / large)} ${largeName}`
  return rest === 0 ? first : `${first} ${rest} ${smallName}`
}

/** Formats the distance from now with one unit: `now`, `12 s ago`, `in 3 m`, `4 h ago`, `in 2 d`. */
export function relative(at: number, now: number): string {
  const distance = at - now
  const size = Math.abs(distance)
  if (size < SECOND) return 'now'
  const text = oneUnit(size)
  return distance < 0 ? `${text} ago` : `in ${text}`
}

export function oneUnit(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} m`
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h`
  return `${Math.floor(ms / DAY)} d`
}

/**
 * Formats the time until a fire: `0:42`, `12:05`, `3:04:05`, `2 d 3 h`. A fraction of a second counts as a second, so a
 * countdown never shows less time than is left.
 */
export function countdown(at: number, now: number): string {
  const left = Math.ceil((at - now) / SECOND)
  if (left <= 0) return 'now'
  if (left >= 2 * 86_400) return duration(left * SECOND)
  const hours = Math.floor(left / 3600)
  const minutes = Math.floor((left % 3600) / 60)
  const seconds = String(left % 60).padStart(2, '0')
  if (hours === 0) return `${minutes}:${seconds}`
  return `${hours}:${String(minutes).padStart(2, '0')}:${seconds}`
}

export function count(value: number): string {
  return value.toLocaleString('en-US')
}

/** Formats a number for narrow places: `1.2k`, `34k`, `5.1M`. */
export function shortCount(value: number): string {
  if (value < 1000) return String(Math.round(value))
  if (value < 9950) return `${(value / 1000).toFixed(1)}k`
  if (value < 999_500) return `${Math.round(value / 1000)}k`
  return `${(value / 1_000_000).toFixed(1)}M`
}

/** Formats a number with its noun: `1 run`, `2,400 runs`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

export function percent(part: number, digits = 1): string {
  const value = part * 100
  if (value > 99.95 && value < 100) return '>99.9 %'
  return `${value === 100 || value === 0 ? value : value.toFixed(digits)} %`
}
