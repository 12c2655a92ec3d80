import { describe, expect, test } from 'vitest'
import { closedOf, monthOf, pieceText, shortPieceText, stateAt, yearOf, yearPeriod } from './closed'
import { emptyEntry, entryWords, kindOfEntry, summary } from './words'

const at = (text: string) => Date.parse(text)
const BERLIN = 'Europe/Berlin'
const FREEZE = { from: '2026-12-19T23:00:00Z', to: '2027-01-02T23:00:00Z', entry: 0, reason: 'freeze' }
const WEEKEND = { from: '2026-12-11T21:00:00Z', to: '2026-12-14T07:00:00Z', entry: 1, reason: 'weekend' }

describe('the state of a calendar', () => {
  const closed = closedOf([WEEKEND, FREEZE])
  const end = at('2027-02-01T00:00:00Z')

  test('is open until the next closed time', () => {
    const now = stateAt(closed, at('2026-12-15T00:00:00Z'), end)
    expect(now).toEqual({ closed: false, reason: null, until: at(FREEZE.from) })
  })

  test('is closed until times that touch have all ended', () => {
    const touching = closedOf([WEEKEND, { ...FREEZE, from: WEEKEND.to }])
    const now = stateAt(touching, at('2026-12-12T00:00:00Z'), end)
    expect(now).toEqual({ closed: true, reason: 'weekend', until: at(FREEZE.to) })
  })

  test('has no end that is beyond what is known', () => {
    expect(stateAt(closed, at('2026-12-25T00:00:00Z'), at(FREEZE.to)).until).toBeNull()
    expect(stateAt([], 0, end)).toEqual({ closed: false, reason: null, until: null })
  })
})

describe('a month', () => {
  test('has the days of the zone of the calendar, with their closed parts', () => {
    const month = monthOf(at('2026-12-15T00:00:00Z'), BERLIN, closedOf([WEEKEND, FREEZE]))
    expect([month.days.length, month.lead]).toEqual([31, 1])
    expect(month.days.map(day => Math.round(day.closedShare * 24))).toEqual([
      ...Array(10).fill(0),
      ...[2, 24, 24, 8],
      ...Array(5).fill(0),
      ...Array(12).fill(24),
    ])
  })

  test('says when a day is closed', () => {
    const month = monthOf(at('2026-12-15T00:00:00Z'), BERLIN, closedOf([WEEKEND]))
    const text = (number: number) =>
      month.days[number - 1]?.pieces.map(piece =>
        pieceText(piece, month.days[number - 1]?.period ?? { from: 0, to: 0 }, BERLIN),
      )
    expect(text(11)).toEqual(['22:00–24:00'])
    expect(text(12)).toEqual(['all day'])
    expect(text(14)).toEqual(['00:00–08:00'])
    expect(text(15)).toEqual([])
    const short = (number: number) => {
      const day = month.days[number - 1]
      return day?.pieces.map(piece => shortPieceText(piece, day.period, BERLIN))
    }
    expect([short(11), short(12), short(14)]).toEqual([['22:00–'], [''], ['–08:00']])
  })

  test('has a day of 23 hours when clocks go forward', () => {
    const month = monthOf(at('2026-03-15T00:00:00Z'), BERLIN, [])
    expect((month.days[28]?.period.to ?? 0) - (month.days[28]?.period.from ?? 0)).toBe(23 * 3_600_000)
  })
})

test('a year has twelve months, and begins at midnight in the zone', () => {
  const year = yearOf(at('2026-06-15T00:00:00Z'), BERLIN, [])
  expect(year.map(month => month.days.length)).toEqual([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
  expect(yearPeriod(at('2026-06-15T00:00:00Z'), BERLIN)).toEqual({
    from: at('2025-12-31T23:00:00Z'),
    to: at('2026-12-31T23:00:00Z'),
  })
  expect(yearPeriod(at('2026-06-15T00:00:00Z'), BERLIN, 1).from).toBe(at('2026-12-31T23:00:00Z'))
})

describe('an entry in words', () => {
  test.each([
    [{ dates: ['2026-12-25'] }, 'All of 25 Dec 2026'],
    [{ dates: ['2026-12-25', '2027-01-01'] }, '2 days: 25 Dec 2026, 1 Jan 2027'],
    [
      { dates: Array.from({ length: 9 }, (_, day) => `2026-12-0${day + 1}`) },
      '9 days: 1 Dec 2026, 2 Dec 2026, 3 Dec 2026, 4 Dec 2026 and 5 more',
    ],
    [{ from: '2026-12-20T00:00', to: '2027-01-03T00:00' }, 'From 20 Dec 2026 00:00 until 3 Jan 2027 00:00'],
    [{ from: '2026-12-20T00:00:00Z', to: '2027-01-03T00:00' }, 'From 2026-12-20T00:00:00Z until 3 Jan 2027 00:00'],
    [{ cron: '0 22 * * FRI', for: '58h' }, 'For 58h each time, beginning at 0 22 * * FRI'],
  ])('%o', (entry, words) => {
    expect(entryWords(entry)).toBe(words)
  })

  test('uses the description of the server', () => {
    expect(entryWords({ cron: '0 22 * * FRI', for: '58h' }, 'At 22:00 on Friday.')).toBe(
      'For 58h each time, at 22:00 on Friday',
    )
  })

  test('has the kind of the fields that it has', () => {
    for (const kind of ['dates', 'range', 'windows'] as const)
      expect(kindOfEntry(emptyEntry(kind, '2026-12-25'))).toBe(kind)
  })
})

test('the summary of a calendar names each reason once', () => {
  expect(summary([])).toBe('always open')
  expect(summary([{ dates: [] }])).toBe('1 entry')
  expect(summary([{ reason: 'a' }, { reason: 'a' }, { reason: 'b' }])).toBe('3 entries: a, b')
})
