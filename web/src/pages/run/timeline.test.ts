import { describe, expect, it } from 'vitest'
import type { Run } from '@/api/types'
import { latenessParts, timelineOf } from './timeline'

const T = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString()
const at = (seconds: number) => Date.UTC(2026, 0, 1) + seconds * 1000

const run = (rest: Partial<Run> = {}): Run => ({
  runId: 'r_1',
  jobId: 'j_1',
  jobName: 'job',
  jobVersion: 1,
  status: 'succeeded',
  fireTime: T(10),
  origin: 'schedule',
  attempt: 1,
  executorId: 'w',
  startTime: T(14),
  endTime: T(20),
  progress: null,
  progressNote: '',
  error: null,
  verdict: 'late',
  reason: '',
  lateMs: 4000,
  lateness: { schedulerMs: 1000, blockedMs: 0, queueMs: 2500, workerMs: 500, totalMs: 4000 },
  cancelRequestedAt: null,
  retryOf: null,
  retriedAs: null,
  replayOf: null,
  fencingToken: 1,
  createdAt: T(0),
  attempts: [{ attempt: 1, fencingToken: 1, executorId: 'w', startTime: T(14), endTime: T(20), error: null }],
  ...rest,
})

const failed = { kind: 'exit', message: 'exit code 3', exitCode: 3 }

describe('timelineOf', () => {
  it('covers the time from due to end without gaps', () => {
    const line = timelineOf(run(), at(99))
    expect([line.from, line.to]).toEqual([at(10), at(20)])
    expect(line.segments.map(s => [s.kind, (s.from - at(0)) / 1000, (s.to - at(0)) / 1000])).toEqual([
      ['scheduler', 10, 11],
      ['queue', 11, 13.5],
      ['worker', 13.5, 14],
      ['attempt', 14, 20],
    ])
    expect(line.steps.map(s => s.id)).toEqual(['created', 'due', 'claimed', 'start-0', 'end'])
    expect(line.steps.map(s => s.after)).toEqual([null, 10_000, 3500, 500, 6000])
  })

  it('shows attempts, the time between them, and what is not over', () => {
    const retrying = run({
      status: 'retrying',
      endTime: null,
      attempt: 2,
      attempts: [
        { attempt: 1, fencingToken: 1, executorId: 'w', startTime: T(14), endTime: T(16), error: failed },
        { attempt: 2, fencingToken: 2, executorId: 'w', startTime: T(20), endTime: T(21), error: failed },
      ],
    })
    const line = timelineOf(retrying, at(25))
    expect(line.segments.slice(3).map(s => [s.kind, s.running, s.failed])).toEqual([
      ['attempt', false, true],
      ['between', false, false],
      ['attempt', false, true],
      ['between', true, false],
    ])
    expect(line.to).toBe(at(25))
    expect(line.steps.map(s => s.label)).toEqual([
      'Planned',
      'Due',
      'Claimed',
      'Attempt 1 started',
      'Attempt 1 failed',
      'Attempt 2 started',
      'Attempt 2 failed',
    ])
  })

  it('grows while it runs', () => {
    const running = run({
      status: 'running',
      endTime: null,
      attempts: [{ attempt: 1, fencingToken: 1, executorId: 'w', startTime: T(14), endTime: null, error: null }],
    })
    expect(timelineOf(running, at(30)).segments.at(-1)).toMatchObject({ to: at(30), running: true })
  })

  it('shows a wait for a run that has not started, and nothing before it is due', () => {
    const queued = run({ status: 'queued', startTime: null, endTime: null, lateness: null, attempts: [] })
    expect(timelineOf(queued, at(15)).segments).toMatchObject([{ kind: 'waiting', running: true, to: at(15) }])
    expect(timelineOf({ ...queued, status: 'scheduled' }, at(5)).segments).toEqual([])
  })

  it('uses the times of the run where attempts are not listed', () => {
    const { attempts: _, ...listed } = run()
    expect(timelineOf(listed, at(99)).segments.at(-1)).toMatchObject({ kind: 'attempt', from: at(14), to: at(20) })
  })
})

describe('latenessParts', () => {
  it('adds up to the total', () => {
    const split = latenessParts(run())
    expect(split?.parts.reduce((sum, part) => sum + part.ms, 0)).toBe(split?.total)
    expect(split?.parts.reduce((sum, part) => sum + part.share, 0)).toBeCloseTo(1)
    expect(latenessParts(run({ lateness: null }))).toBeNull()
  })
})
