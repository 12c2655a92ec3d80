import { describe, expect, test } from 'vitest'
import { barOf, rangeOf, ticksOf } from './gantt'
import { arrowsOf, fitTasks, MAX_ORDERED_TASKS, NODE_HEIGHT, NODE_WIDTH, placeTasks, ranksOf } from './layout'
import { taskEnded, taskLook } from './states'

const TASKS = [
  { name: 'a', needs: [] },
  { name: 'b', needs: ['a', 'a'] },
  { name: 'c', needs: ['a'] },
  { name: 'd', needs: ['b', 'c', 'gone'] },
]

describe('layout', () => {
  test('draws an arrow once, and none from a task that does not exist', () => {
    expect(arrowsOf(TASKS).map(arrow => arrow.from + arrow.to)).toEqual(['ab', 'ac', 'bd', 'cd'])
  })

  test.each(['right', 'down'] as const)('puts a task behind all that it needs (%s)', direction => {
    const many = Array.from({ length: MAX_ORDERED_TASKS + 1 }, (_, at) => ({
      name: `t${at}`,
      needs: at === 0 ? [] : [`t${Math.floor((at - 1) / 2)}`],
    }))
    for (const tasks of [TASKS, many]) {
      const places = new Map(placeTasks(tasks, direction).map(place => [place.name, place]))
      for (const { from, to } of arrowsOf(tasks)) {
        const [first, second] = [places.get(from), places.get(to)]
        if (first === undefined || second === undefined) throw new Error('not placed')
        if (direction === 'right') expect(second.x).toBeGreaterThan(first.x + NODE_WIDTH)
        else expect(second.y).toBeGreaterThan(first.y + NODE_HEIGHT)
      }
      const spots = [...places.values()]
      const overlaps = spots.filter((one, at) =>
        spots
          .slice(at + 1)
          .some(other => Math.abs(one.x - other.x) < NODE_WIDTH && Math.abs(one.y - other.y) < NODE_HEIGHT),
      )
      expect(overlaps).toEqual([])
    }
  })

  test('turns the picture where the boxes are larger', () => {
    const chain = Array.from({ length: 8 }, (_, at) => ({ name: `t${at}`, needs: at === 0 ? [] : [`t${at - 1}`] }))
    expect(fitTasks(chain, 2400, 500).direction).toBe('right')
    expect(fitTasks(chain, 400, 800).direction).toBe('down')
    const picture = fitTasks(chain, 2400, 500)
    expect(picture.zoom).toBe(1)
    expect(picture.height).toBeLessThan(200)
    expect(fitTasks([], 400, 800).places).toEqual([])
  })

  test('ranks a chain of ten thousand, and survives a cycle', () => {
    const chain = Array.from({ length: 10_000 }, (_, at) => ({ name: `t${at}`, needs: at === 0 ? [] : [`t${at - 1}`] }))
    expect(ranksOf(chain.toReversed()).get('t9999')).toBe(9999)
    expect(
      ranksOf([
        { name: 'a', needs: ['b'] },
        { name: 'b', needs: ['a'] },
      ]).size,
    ).toBe(2)
  })
})

describe('gantt', () => {
  const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString()
  const now = Date.parse(at(20))
  const range = rangeOf({ startTime: at(0), fireTime: at(0), endTime: null }, now)

  test('draws what ended, what runs up to now, and nothing for what waits', () => {
    const bar = (startTime: string | null, endTime: string | null) =>
      barOf({ name: 't', status: 'x', startTime, endTime }, range, now)
    expect(bar(at(5), at(10))).toMatchObject({ left: 25, width: 25, running: false, ms: 5000 })
    expect(bar(at(15), null)).toMatchObject({ left: 75, width: 25, running: true, ms: 5000 })
    expect(bar(null, null)).toMatchObject({ left: null, ms: null })
  })

  test('keeps tasks of an earlier run at the left edge', () => {
    const bar = barOf(
      { name: 't', status: 'succeeded', startTime: '2025-12-31T23:00:00Z', endTime: '2025-12-31T23:01:00Z' },
      range,
      now,
    )
    expect(bar).toMatchObject({ left: 0, width: 0, earlier: true, ms: 60_000 })
  })

  test('has few marks at round distances', () => {
    expect(ticksOf(range, 5).map(tick => tick.ms)).toEqual([0, 5000, 10_000, 15_000, 20_000])
    expect(ticksOf({ from: 0, to: 1e12 }, 6).length).toBeLessThanOrEqual(7)
    expect(rangeOf({ startTime: null, fireTime: at(0), endTime: at(0) }, now)).toEqual({
      from: Date.parse(at(0)),
      to: Date.parse(at(1)),
    })
  })
})

test('every status of a task has a look', () => {
  expect(taskLook('waiting').label).toBe('Waiting')
  expect(taskLook('succeeded').tone).toBe('ok')
  expect(taskLook('__proto__').label).toBeDefined()
  expect([taskEnded('skipped'), taskEnded('waiting')]).toEqual([true, false])
})
