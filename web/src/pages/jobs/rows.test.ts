import { expect, it } from 'vitest'
import type { RecentRun } from '@/api/types'
import { withRun } from './rows'

const run = (id: number): RecentRun => ({
  runId: `r_${id}`,
  status: 'succeeded',
  fireTime: '',
  startedAt: 'a',
  endedAt: 'b',
  lateMs: 1,
})

it('a strip takes a new run in front, and drops the oldest', () => {
  const runs = Array.from({ length: 20 }, (_, at) => run(20 - at))
  const next = withRun(runs, { runId: 'r_21', status: 'queued', fireTime: 'now' }, 't')
  expect(next).toHaveLength(20)
  expect(next[0]).toMatchObject({ runId: 'r_21', status: 'queued', startedAt: null })
  expect(next.at(-1)?.runId).toBe('r_2')
})

it('a strip follows a run to its end', () => {
  const started = withRun([run(1)], { runId: 'r_2', status: 'running' }, 't1')
  const ended = withRun(started, { runId: 'r_2', status: 'failed' }, 't2')
  expect(ended).toHaveLength(2)
  expect(ended[0]).toMatchObject({ status: 'failed', startedAt: 't1', endedAt: 't2' })
})
