import { describe, expect, it } from 'vitest'
import { addCounts, type LedgerItem, removedFires, sortIntoPeriods, totalOf, worstOf } from './ledger'
import { offsetAt, partsOfPeriod, periodOf, weekday } from './periods'

const T = (text: string) => Date.parse(`${text}Z`)

const item = (at: string, rest: Partial<LedgerItem> = {}): LedgerItem => ({
  fireTime: `${at}Z`,
  fireUntil: `${at}Z`,
  count: 1,
  verdict: 'on_time',
  reason: '',
  runId: 'r_1',
  status: 'succeeded',
  lateMs: 1,
  ...rest,
})

describe('periods', () => {
  it('has days of 23 and 25 hours where clocks change', () => {
    const spring = periodOf('day', T('2026-03-29T10:00'), 'Europe/Berlin')
    expect((spring.to - spring.from) / 3_600_000).toBe(23)
    const autumn = periodOf('day', T('2026-10-25T10:00'), 'Europe/Berlin')
    expect(partsOfPeriod('day', autumn, 'Europe/Berlin')).toHaveLength(25)
  })

  it('covers a month in days without gaps, in any zone', () => {
    for (const zone of ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe']) {
      const month = periodOf('month', T('2026-10-15T12:00'), zone)
      const days = partsOfPeriod('month', month, zone)
      expect(days).toHaveLength(31)
      expect(days[0]?.from).toBe(month.from)
      expect(days.at(-1)?.to).toBe(month.to)
      for (const [index, day] of days.slice(1).entries()) expect(day.from).toBe(days[index]?.to)
    }
  })

  it('moves by one, over the ends of years', () => {
    expect(periodOf('month', T('2026-12-05T00:00'), 'UTC', 1).from).toBe(T('2027-01-01T00:00'))
    expect(periodOf('day', T('2026-01-01T05:00'), 'UTC', -1).from).toBe(T('2025-12-31T00:00'))
    expect(periodOf('hour', T('2026-01-01T05:59'), 'Asia/Kolkata').from).toBe(T('2026-01-01T05:30'))
    expect(weekday(T('2026-11-18T12:00'), 'UTC')).toBe(2)
    expect(offsetAt(T('2026-07-01T00:00'), 'Europe/Berlin')).toBe(2 * 3_600_000)
  })
})

describe('sortIntoPeriods', () => {
  const day = periodOf('day', T('2026-11-18T00:00'), 'UTC')
  const hours = partsOfPeriod('day', day, 'UTC')

  it('puts every fire into its part', () => {
    const buckets = sortIntoPeriods(
      [item('2026-11-18T00:00:00'), item('2026-11-18T00:59:59', { verdict: 'late' }), item('2026-11-18T23:00:00')],
      hours,
    )
    expect(buckets[0]?.counts).toEqual({ on_time: 1, late: 1 })
    expect(buckets[23]?.total).toBe(1)
  })

  it('divides a span at the ends of parts, and the sums add up', () => {
    const span = item('2026-11-18T01:30:00', {
      fireUntil: '2026-11-18T03:29:00Z',
      count: 120,
      verdict: 'missed',
      runId: null,
    })
    const buckets = sortIntoPeriods([span], hours)
    expect(buckets.slice(0, 5).map(bucket => bucket.total)).toEqual([0, 30, 60, 30, 0])
    expect(totalOf(addCounts(buckets.map(bucket => bucket.counts)))).toBe(120)
    expect(removedFires(120, buckets)).toBe(0)
    expect(removedFires(150, buckets)).toBe(30)
  })

  it('counts a span that reaches out of the range as a whole, like the server', () => {
    const span = item('2026-11-17T12:00:00', { fireUntil: '2026-11-18T11:59:59Z', count: 86_400, verdict: 'skipped' })
    const buckets = sortIntoPeriods([span], hours)
    expect(totalOf(addCounts(buckets.map(bucket => bucket.counts)))).toBe(86_400)
  })

  it('names the worst verdict', () => {
    expect(worstOf({ on_time: 5, late: 1 })).toBe('late')
    expect(worstOf({ on_time: 5, missed: 1, late: 3 })).toBe('missed')
    expect(worstOf({})).toBeNull()
  })
})
