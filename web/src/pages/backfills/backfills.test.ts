import { describe, expect, test } from 'vitest'
import { type Backfill, isOver, lookOf, progressText, runsFilter, timeLeft } from './model'
import { backfillsSearch } from './search'

const NOW = Date.parse('2026-11-18T12:00:00Z')

function backfill(change: Partial<Backfill> = {}): Backfill {
  return {
    backfillId: 'b_1',
    jobId: 'j_1',
    jobName: 'etl',
    from: '2026-10-01T00:00:00Z',
    to: '2026-11-01T00:00:00Z',
    parallelism: 4,
    status: 'running',
    reason: '',
    total: 1200,
    done: 300,
    succeeded: 290,
    failed: 10,
    cancelled: 0,
    running: 4,
    remaining: 896,
    nextFireTime: '2026-10-08T00:00:00Z',
    createdAt: '2026-11-18T11:50:00Z',
    finishedAt: null,
    ...change,
  }
}

describe('a backfill', () => {
  test('that completed with failures does not look like one that succeeded', () => {
    expect(lookOf(backfill({ status: 'completed', failed: 0 })).tone).toBe('ok')
    expect(lookOf(backfill({ status: 'completed', failed: 1 })).tone).toBe('bad')
    expect(lookOf(backfill({ status: 'cancelled', failed: 1 })).label).toBe('Cancelled')
    expect([
      isOver(backfill()),
      isOver(backfill({ status: 'paused' })),
      isOver(backfill({ status: 'cancelled' })),
    ]).toEqual([false, false, true])
  })

  test('says how far it is', () => {
    expect(progressText(backfill())).toBe('300 of 1,200 fires done: 290 succeeded, 10 failed, 4 running')
    expect(progressText(backfill({ done: 0, succeeded: 0, failed: 0, running: 0 }))).toBe('0 of 1,200 fires done')
  })

  test('estimates its end by its pace, if it has one', () => {
    expect(timeLeft(backfill(), NOW)).toBe(30 * 60_000)
    expect(timeLeft(backfill({ done: 2 }), NOW)).toBeNull()
    expect(timeLeft(backfill({ status: 'paused' }), NOW)).toBeNull()
    expect(timeLeft(backfill(), Date.parse('2026-11-18T11:00:00Z'))).toBeNull()
  })

  test('leads to its runs', () => {
    expect(runsFilter(backfill(), 'failed')).toEqual({
      jobId: 'j_1',
      origin: ['backfill'],
      startTime: '2026-10-01T00:00:00Z',
      endTime: '2026-11-01T00:00:00Z',
      status: ['failed', 'dead'],
    })
    expect(runsFilter(backfill(), 'all').status).toBeUndefined()
    expect(runsFilter(backfill(), 'live').status).toContain('retrying')
  })
})

test('an address keeps the job and the open backfill', () => {
  expect(backfillsSearch({ jobId: 'j_1', backfill: 'b_1', x: '1' })).toEqual({ jobId: 'j_1', backfill: 'b_1' })
})
