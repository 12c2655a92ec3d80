import { beforeEach, describe, expect, it } from 'vitest'
import type { Timeline } from '@/api/types'
import type { TimeballEvent } from '@/events/types'
import { apply, barAt, laneCounts, MAX_LANE_BARS, type Model, modelOf, prune } from './model'

const NOW = Date.parse('2026-03-01T12:00:00Z')
const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString()

const TIMELINE: Timeline = {
  from: at(-300),
  to: at(300),
  now: at(0),
  by: 'job',
  hiddenLanes: 0,
  lanes: [
    {
      id: 'j_1',
      name: 'one',
      status: 'scheduled',
      runs: [
        {
          runId: 'r_2',
          fireTime: at(-60),
          startedAt: at(-59),
          endedAt: at(-50),
          status: 'succeeded',
          verdict: 'on_time',
          lateMs: 1000,
        },
        {
          runId: 'r_1',
          fireTime: at(-120),
          startedAt: at(-110),
          endedAt: at(-100),
          status: 'succeeded',
          verdict: 'late',
          lateMs: 10_000,
        },
      ],
      buckets: null,
      fires: [at(1), at(61)],
      truncated: false,
    },
    {
      id: 'j_2',
      name: 'many',
      status: 'scheduled',
      runs: [],
      buckets: [{ from: at(-20), to: at(-10), counts: { on_time: 5 } }],
      fires: [],
      truncated: false,
    },
  ],
}

function event(type: string, data: unknown, seconds = 0): TimeballEvent {
  return { id: '1', type: `timeball.${type}`, subject: null, time: at(seconds), data }
}

let model: Model
beforeEach(() => {
  model = modelOf(TIMELINE)
})
const lane = (id: string) => {
  const found = model.byId.get(id)
  if (found === undefined) throw new Error(id)
  return found
}

describe('the now line', () => {
  it('has its bars in the order of their fires', () => {
    expect(lane('j_1').bars.map(bar => [bar.runId, bar.mark])).toEqual([
      ['r_1', 'late'],
      ['r_2', 'on_time'],
    ])
  })

  it('turns a fire into a bar, and follows it to its end', () => {
    expect(
      apply(model, event('run.queued', { runId: 'r_3', jobId: 'j_1', status: 'queued', fireTime: at(1) }, 1)),
    ).toBe('changed')
    expect(lane('j_1').fires).toEqual([NOW + 61_000])
    expect(lane('j_1').byRun.get('r_3')).toMatchObject({ start: null, end: null, mark: 'waiting' })
    apply(model, event('run.started', { runId: 'r_3', jobId: 'j_1', status: 'running', lateMs: 20 }, 1.02))
    expect(lane('j_1').byRun.get('r_3')?.start).toBe(NOW + 1020)
    apply(model, event('run.succeeded', { runId: 'r_3', jobId: 'j_1', status: 'succeeded' }, 4))
    expect(lane('j_1').byRun.get('r_3')).toMatchObject({ end: NOW + 4000, mark: 'on_time' })
    expect(lane('j_1').bars).toHaveLength(3)
  })

  it('shows a run that is planned as a coming fire', () => {
    apply(model, event('run.queued', { runId: 'r_3', jobId: 'j_1', status: 'scheduled', fireTime: at(30) }))
    expect(lane('j_1').fires).toEqual([NOW + 1000, NOW + 30_000, NOW + 61_000])
    expect(lane('j_1').byRun.has('r_3')).toBe(false)
  })

  it('keeps a run late that started late, and shows failure before lateness', () => {
    apply(
      model,
      event('run.started', { runId: 'r_4', jobId: 'j_1', status: 'running', fireTime: at(-10), lateMs: 5000 }, -5),
    )
    apply(model, event('run.succeeded', { runId: 'r_4', jobId: 'j_1', status: 'succeeded' }, 0))
    expect(lane('j_1').byRun.get('r_4')?.mark).toBe('late')
    apply(model, event('run.dead', { runId: 'r_4', jobId: 'j_1', status: 'dead' }, 1))
    expect(lane('j_1').byRun.get('r_4')?.mark).toBe('failed')
  })

  it('counts what has no bars, in buckets that it continues', () => {
    apply(model, event('run.succeeded', { runId: 'r_9', jobId: 'j_2', status: 'succeeded' }, -15))
    apply(
      model,
      event(
        'runs.changed',
        {
          count: 3,
          statuses: {},
          jobs: { j_2: { succeeded: 2, failed: 1, running: 7 } },
          jobsTruncated: false,
          runs: [],
          tags: {},
        },
        5,
      ),
    )
    expect(lane('j_2').buckets?.map(bucket => bucket.total)).toEqual([6, 0, 3])
    expect(laneCounts(lane('j_2'))).toMatchObject({ on_time: 8, failed: 1, running: 0 })
  })

  it('says that it has to be read again when it cannot know', () => {
    expect(apply(model, event('run.started', { runId: 'r_5', jobId: 'j_new', status: 'running' }))).toBe('stale')
    const sums = {
      count: 200,
      statuses: {},
      jobs: { j_1: { succeeded: 200 } },
      jobsTruncated: false,
      runs: [],
      tags: {},
    }
    expect(apply(model, event('runs.changed', sums))).toBe('stale')
    expect(apply(model, event('worker.lost', {}))).toBe('nothing')
  })

  it('never holds more than it can show', () => {
    for (let i = 0; i < 1000; i++)
      apply(
        model,
        event('run.succeeded', { runId: `x${i}`, jobId: 'j_1', status: 'succeeded', fireTime: at(i / 10) }, i / 10),
      )
    expect(lane('j_1').bars).toHaveLength(MAX_LANE_BARS)
    expect(lane('j_1').byRun.size).toBe(MAX_LANE_BARS)
    prune(model, NOW + 1_000_000)
    expect(lane('j_1').bars).toHaveLength(0)
    expect(lane('j_1').byRun.size).toBe(0)
  })

  it('finds the bar below the pointer', () => {
    expect(barAt(lane('j_1'), NOW - 55_000, NOW, 0)?.runId).toBe('r_2')
    expect(barAt(lane('j_1'), NOW - 62_000, NOW, 5000)?.runId).toBe('r_2')
    expect(barAt(lane('j_1'), NOW - 80_000, NOW, 5000)).toBeNull()
  })
})
