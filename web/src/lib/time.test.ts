import { describe, expect, it } from 'vitest'
import {
  countdown,
  dateTime,
  dayTime,
  duration,
  fullDateTime,
  instant,
  isZone,
  percent,
  relative,
  shortCount,
  shortDateTime,
} from './time'

const NOON = Date.parse('2026-07-01T12:00:00.123Z')

describe('durations', () => {
  it.each([
    [0, '0 ms'],
    [0.4, '<1 ms'],
    [840, '840 ms'],
    [999.6, '1.0 s'],
    [1234, '1.2 s'],
    [59_400, '59 s'],
    [59_600, '1 m'],
    [192_000, '3 m 12 s'],
    [3_599_600, '1 h'],
    [7_500_000, '2 h 5 m'],
    [86_400_000, '1 d'],
    [273_600_000, '3 d 4 h'],
    [-1500, '-1.5 s'],
  ])('writes %d ms as %s', (ms, text) => {
    expect(duration(ms)).toBe(text)
  })

  it('never writes 60 seconds or 60 minutes', () => {
    for (let ms = 0; ms < 100_000_000; ms += 7919) expect(duration(ms)).not.toMatch(/\b60 [sm]/)
  })
})

describe('instants', () => {
  it('are written in the chosen zone', () => {
    expect(dateTime(NOON, 'UTC')).toBe('2026-07-01 12:00:00')
    expect(dateTime(NOON, 'Asia/Kathmandu')).toBe('2026-07-01 17:45:00')
    expect(fullDateTime(NOON, 'UTC')).toBe('2026-07-01 12:00:00.123 UTC')
  })

  it('show both hours of a clock change apart', () => {
    const before = Date.parse('2026-10-25T00:30:00Z')
    expect(fullDateTime(before, 'Europe/Berlin')).toContain('02:30:00.000 CEST')
    expect(fullDateTime(before + 3_600_000, 'Europe/Berlin')).toContain('02:30:00.000 CET')
  })

  it('are shortened by what is clear', () => {
    expect(shortDateTime(NOON, NOON + 60_000, 'UTC')).toBe('12:00:00')
    expect(shortDateTime(NOON, NOON + 86_400_000, 'UTC')).toBe('Jul 1 12:00')
    expect(shortDateTime(NOON, NOON + 400 * 86_400_000, 'UTC')).toBe('2026-07-01')
  })

  it('are read from RFC 3339, and from nothing else', () => {
    expect(instant('2026-07-01T12:00:00.123Z')).toBe(NOON)
    expect(instant('tomorrow')).toBeNull()
    expect(instant(null)).toBeNull()
  })

  it('know zones', () => {
    expect(isZone('Europe/Berlin')).toBe(true)
    expect(isZone('Moon/Base')).toBe(false)
  })
})

describe('distances', () => {
  it.each([
    [-500, 'now'],
    [-12_000, '12 s ago'],
    [190_000, 'in 3 m'],
    [-7_200_000, '2 h ago'],
    [3 * 86_400_000, 'in 3 d'],
  ])('%d ms is %s', (distance, text) => {
    expect(relative(NOON + distance, NOON)).toBe(text)
  })

  it('count down without ever showing less than is left', () => {
    expect(countdown(NOON + 1, NOON)).toBe('0:01')
    expect(countdown(NOON + 42_000, NOON)).toBe('0:42')
    expect(countdown(NOON + 3_600_000, NOON)).toBe('1:00:00')
    expect(countdown(NOON - 5, NOON)).toBe('now')
  })
})

describe('figures', () => {
  it('are short', () => {
    expect([950, 1234, 12_345, 1_234_567].map(shortCount)).toEqual(['950', '1.2k', '12k', '1.2M'])
  })

  it('do not round a failure away', () => {
    expect(percent(0.99999)).toBe('>99.9 %')
    expect(percent(1)).toBe('100 %')
  })
})

it('keeps the date of a range that ends today', () => {
  expect(dayTime(NOON, NOON, 'Europe/Berlin')).toBe('Jul 1 14:00')
  expect(dayTime(Date.parse('2025-12-31T23:30:00Z'), NOON, 'Europe/Berlin')).toBe('Jan 1 00:30')
  expect(dayTime(Date.parse('2025-12-31T12:30:00Z'), NOON, 'UTC')).toBe('Dec 31 2025 12:30')
})
