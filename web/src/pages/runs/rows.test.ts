import { describe, expect, it } from 'vitest'
import type { Batch, TimeballEvent } from '@/events/types'
import { PagedList } from '@/lib/paged-list'
import { apiFilter, applyBatch, bulkFilter, type RunRow } from './rows'

const FIRE = Date.parse('2026-03-01T12:00:00Z')

const ROW: RunRow = {
  runId: 'r_1',
  jobId: 'j_1',
  jobName: 'one',
  status: 'queued',
  verdict: 'open',
  origin: 'schedule',
  attempt: 1,
  fire: FIRE,
  start: null,
  end: null,
  lateMs: null,
  note: '',
  cancelling: false,
}

async function listOf(...rows: RunRow[]) {
  const list = new PagedList<RunRow>(
    row => row.runId,
    async () => ({ items: rows, nextCursor: null }),
  )
  await list.loadMore()
  return list
}

const event = (status: string, seconds: number, more: object = {}): TimeballEvent => ({
  id: '1',
  type: `timeball.run.${status}`,
  subject: null,
  time: new Date(FIRE + seconds * 1000).toISOString(),
  data: { runId: 'r_1', jobId: 'j_1', status, ...more },
})
const batch = (...events: TimeballEvent[]): Batch => ({ events, reset: false })

describe('events', () => {
  it('carry a row from its start to its end, also within one batch', async () => {
    const list = await listOf(ROW)
    expect(applyBatch(batch(event('running', 1, { lateMs: 30 }), event('succeeded', 4)), list)).toBe(false)
    expect(list.state().rows[0]).toMatchObject({
      status: 'succeeded',
      start: FIRE + 30,
      end: FIRE + 4000,
      verdict: 'on_time',
    })
  })

  it('ask for a new reading when they name a run that is not in the list', async () => {
    const list = await listOf(ROW)
    expect(applyBatch(batch(event('running', 1, { runId: 'r_2' })), list)).toBe(true)
    expect(list.state().rows[0]).toBe(ROW)
  })

  it('ask for a new reading after a gap', async () => {
    expect(applyBatch({ events: [], reset: true }, await listOf(ROW))).toBe(true)
  })
})

describe('the filter of the address', () => {
  it('goes to the API with times resolved', () => {
    expect(apiFilter({ status: ['failed', 'dead'], startTime: '2026-03-01T12:00:00Z' })).toEqual({
      status: ['failed', 'dead'],
      startTime: '2026-03-01T12:00:00.000Z',
    })
  })

  it('selects everything only when that is said', () => {
    expect(bulkFilter({})).toEqual({ all: true })
    expect(bulkFilter({ tag: 'etl' })).toEqual({ tag: 'etl' })
  })
})
