import { describe, expect, test } from 'vitest'
import type { Worker } from '@/api/types'
import { fleetOf, isBeatLate, isShown, memory, rowsOf, runsByWorker, stateOf } from './model'
import { MAX_SAMPLES, type Sample, usageOf, withSample } from './samples'
import { workersSearch } from './search'

function worker(name: string, change: Partial<Worker> = {}): Worker {
  return {
    workerId: `w_${name}`,
    name,
    status: 'live',
    drainingSince: null,
    endedAt: null,
    slots: 4,
    running: 1,
    cpu: null,
    memoryMb: null,
    inUse: { slots: 2, cpu: 0, memoryMb: 0 },
    pools: [],
    labels: [],
    dedicated: false,
    kinds: null,
    reservedFor: null,
    tasks: [],
    version: '1',
    startedAt: '2026-11-18T10:00:00Z',
    seenAt: '2026-11-18T12:00:00Z',
    leaseUntil: '2026-11-18T12:00:30Z',
    ...change,
  }
}

const lost = (name: string, endedAt = '2026-11-18T11:00:00Z') =>
  worker(name, { status: 'lost', endedAt, running: 0, inUse: { slots: 0, cpu: 0, memoryMb: 0 } })
const left = (name: string, drainingSince: string | null = null) =>
  worker(name, { status: 'left', endedAt: '2026-11-18T11:30:00Z', drainingSince })

describe('rows', () => {
  test('a worker that left after a drain was drained', () => {
    expect([stateOf(left('a')), stateOf(left('a', '2026-11-18T11:00:00Z')), stateOf(worker('a'))]).toEqual([
      'left',
      'drained',
      'live',
    ])
  })

  test('lost workers come first, gone ones last, the others by name with numbers', () => {
    const rows = rowsOf([left('z'), worker('rack-10'), worker('rack-9'), lost('dead'), lost('rack-9')])
    expect(rows.map(row => [row.name, row.state, row.isBack])).toEqual([
      ['dead', 'lost', false],
      ['rack-9', 'live', false],
      ['rack-10', 'live', false],
      ['z', 'left', false],
      ['rack-9', 'lost', true],
    ])
  })

  test('without a filter, what is there and what is missing', () => {
    const rows = rowsOf([left('z'), worker('a', { labels: ['gpu'] }), lost('b'), lost('a')])
    const shown = (raw: Record<string, unknown>) =>
      rows.filter(row => isShown(row, workersSearch(raw))).map(row => row.name)
    expect(shown({})).toEqual(['b', 'a'])
    expect(shown({ gone: '1' })).toEqual(['b', 'a', 'z', 'a'])
    expect(shown({ state: ['left', 'nonsense'] })).toEqual(['z'])
    expect(shown({ label: 'gpu' })).toEqual(['a'])
    expect(shown({ q: 'B' })).toEqual(['b'])
  })

  test('sums are about workers that are there', () => {
    const rows = rowsOf([
      worker('a', { cpu: 4, inUse: { slots: 3, cpu: 1.5, memoryMb: 0 } }),
      worker('b', { status: 'draining', drainingSince: '2026-11-18T11:00:00Z' }),
      lost('c'),
      left('d'),
    ])
    expect(fleetOf(rows)).toMatchObject({ live: 1, draining: 1, lost: 1, gone: 1, slots: 8, busy: 5, running: 2 })
    expect(fleetOf(rows)).toMatchObject({ cpu: 4, cpuUsed: 1.5, memoryMb: null })
  })

  test('runs are found by the name of their worker, unless two workers have it', () => {
    const rows = rowsOf([worker('a'), worker('b'), worker('b', { workerId: 'w_b2' }), lost('c')])
    const runs = ['a', 'a', 'b', 'c', null].map((executorId, at) => ({ executorId, at }))
    const found = runsByWorker(rows, runs)
    expect([...found.keys()]).toEqual(['w_a'])
    expect(found.get('w_a')?.length).toBe(2)
  })

  test('a beat is late after half of the lease', () => {
    const now = (seconds: number) => Date.parse('2026-11-18T12:00:00Z') + seconds * 1000
    expect([
      isBeatLate(worker('a'), now(14)),
      isBeatLate(worker('a'), now(16)),
      isBeatLate(lost('a'), now(60)),
    ]).toEqual([false, true, false])
  })

  test('memory', () => {
    expect([0, 512, 1024, 7680].map(memory)).toEqual(['0 MiB', '512 MiB', '1 GiB', '7.5 GiB'])
  })
})

describe('samples', () => {
  const sample = (at: number, busy = 1): Sample => ({ at, busy, slots: 4, byWorker: new Map([['w', busy]]) })

  test('samples that follow too soon replace the last one, and time never goes back', () => {
    let kept: readonly Sample[] = []
    for (const at of [0, 1000, 1300, 1600, 2600]) kept = withSample(kept, sample(at))
    expect(kept.map(item => item.at)).toEqual([0, 1600, 2600])
    expect(withSample(kept, sample(100))).toBe(kept)
  })

  test('there are never more than the maximum, and the first one stays', () => {
    let kept: readonly Sample[] = []
    for (let at = 0; at < 5 * MAX_SAMPLES; at += 1) kept = withSample(kept, sample(at * 2000))
    expect(kept.length).toBeLessThanOrEqual(MAX_SAMPLES)
    expect(kept[0]?.at).toBe(0)
    expect(kept.at(-1)?.at).toBe((5 * MAX_SAMPLES - 1) * 2000)
    expect(kept.every((item, index) => index === 0 || item.at > (kept[index - 1]?.at ?? 0))).toBe(true)
  })

  test('a worker that was not there has a gap', () => {
    expect(usageOf([sample(0, 2)], 'w')).toEqual([2])
    expect(usageOf([sample(0, 2)], 'other')).toEqual([null])
  })
})
