import { describe, expect, test } from 'vitest'
import {
  type Bucket,
  bucketFor,
  cellKey,
  dayNames,
  hourAround,
  LEVELS,
  levelOf,
  loadOf,
  loadText,
  offsetMinutes,
  slotsNeeded,
  spanText,
  weekOf,
} from './model'
import { forecastSearch } from './search'

const at = (text: string) => Date.parse(text)

function buckets(from: string, count: number, minutes: number): Bucket[] {
  return Array.from({ length: count }, (_, index) => {
    const start = at(from) + index * minutes * 60_000
    return {
      from: new Date(start).toISOString(),
      to: new Date(start + minutes * 60_000).toISOString(),
      fires: 1,
      runSeconds: 30,
      capacitySeconds: minutes * 60,
      load: 30 / (minutes * 60),
      jobs: 1,
    }
  })
}

describe('hours of a zone', () => {
  test('offsets follow the zone and the season', () => {
    expect(offsetMinutes(at('2026-01-15T12:00:00Z'), 'Europe/Berlin')).toBe(60)
    expect(offsetMinutes(at('2026-07-15T12:00:00.500Z'), 'Europe/Berlin')).toBe(120)
    expect(offsetMinutes(at('2026-07-15T12:00:00Z'), 'Asia/Kathmandu')).toBe(345)
    expect(offsetMinutes(at('2026-07-15T12:00:00Z'), 'America/St_Johns')).toBe(-150)
  })

  test('buckets are as long as the zone allows', () => {
    const week = (zone: string) => bucketFor(zone, at('2026-03-25T00:00:00Z'), at('2026-04-01T00:00:00Z'))
    expect(['UTC', 'Europe/Berlin', 'Asia/Kolkata', 'Asia/Kathmandu'].map(week)).toEqual(['1h', '1h', '30m', '15m'])
  })

  test('half hours are summed to hours of the clock', () => {
    const week = weekOf(buckets('2026-11-18T18:30:00Z', 4, 30), 'Asia/Kolkata')
    expect(week.days).toEqual(['2026-11-19'])
    const cell = week.cells.get(cellKey('2026-11-19', 0))
    expect(cell).toMatchObject({ fires: 2, runSeconds: 60, capacitySeconds: 3600 })
    expect(cell?.from).toBe(at('2026-11-18T18:30:00Z'))
    expect(cell?.to).toBe(at('2026-11-18T19:30:00Z'))
  })

  test('the hour that occurs twice has both, and the hour that is skipped has none', () => {
    const back = weekOf(buckets('2026-10-24T22:00:00Z', 25, 60), 'Europe/Berlin')
    expect(back.days).toEqual(['2026-10-25'])
    expect(back.cells.get(cellKey('2026-10-25', 2))).toMatchObject({ fires: 2, capacitySeconds: 7200 })
    const ahead = weekOf(buckets('2026-03-28T23:00:00Z', 23, 60), 'Europe/Berlin')
    expect(ahead.days).toEqual(['2026-03-29'])
    expect(ahead.cells.get(cellKey('2026-03-29', 2))).toBeUndefined()
    expect(ahead.cells.size).toBe(23)
  })

  test('an hour is opened by its minutes', () => {
    expect(hourAround(at('2026-11-18T18:47:12Z'), 'Asia/Kolkata')).toEqual({
      from: at('2026-11-18T18:30:00Z'),
      to: at('2026-11-18T19:30:00Z'),
    })
  })
})

describe('loads', () => {
  test('colours have steps, and something is never drawn as nothing', () => {
    expect(levelOf(0, 100)).toBe(0)
    expect(levelOf(5, 0)).toBe(0)
    expect(levelOf(0.001, 100)).toBe(1)
    expect(levelOf(100, 100)).toBe(LEVELS)
    expect(levelOf(250, 100)).toBe(LEVELS)
  })

  test('texts', () => {
    expect([null, 0, 0.002, 0.34, 2.123].map(loadText)).toEqual(['–', '0 %', '<1 %', '34 %', '212 %'])
    expect(loadOf({ runSeconds: 10, capacitySeconds: 0 })).toBeNull()
    expect(slotsNeeded({ from: '2026-01-01T00:00:00Z', to: '2026-01-01T01:00:00Z', runSeconds: 7200 })).toBe(2)
    expect(dayNames('2026-11-19')).toEqual({ weekday: 'Thu', date: '19 Nov' })
    expect(spanText(at('2026-11-19T02:00:00Z'), at('2026-11-19T03:00:00Z'), 'Europe/Berlin')).toBe(
      'Thu 19 Nov, 03:00 to 04:00',
    )
  })
})

test('an address with nonsense opens the page', () => {
  expect(forecastSearch({ at: 'soon', show: 'x', view: ['table'] })).toEqual({ view: 'table' })
  expect(forecastSearch({ at: '2026-11-19T03:00:00Z', show: 'fires' })).toEqual({
    at: '2026-11-19T03:00:00Z',
    show: 'fires',
  })
})
