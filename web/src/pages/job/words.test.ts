import { describe, expect, it } from 'vitest'
import type { Job } from '@/api/types'
import { jobWords, taskWords } from './words'

const job = (rest: Partial<Job> = {}): Job =>
  ({
    name: 'etl',
    description: '',
    task: { kind: 'shell', command: 'python3 etl.py', env: {}, cwd: null },
    parameters: {},
    schedule: { type: 'interval', expression: '15m', dstGap: 'run', dstOverlap: 'first' },
    retry: { maxRetries: 3, backoff: 'exponential', base: '5s', cap: '1h' },
    priority: 'medium',
    timeout: null,
    grace: '5s',
    overlap: 'queue',
    catchUp: 'all',
    catchUpWindow: '1h',
    delivery: 'at_least_once',
    tags: [],
    ...rest,
  }) as Job

const text = (found: Job, description: string | null = null) =>
  Object.fromEntries(jobWords(found, description).map(item => [item.label, item.text]))

describe('jobWords', () => {
  it('says what is usual in a few sentences', () => {
    expect(text(job())).toEqual({
      When: 'Every 15m.',
      Runs: 'a command',
      'If it fails': 'Tried again up to 3 times, exponential from 5s to 1h.',
      Overlap: 'A run waits for the earlier ones.',
      Outages: 'After an outage every missed fire runs, if it was due within 1h.',
    })
    expect(text(job(), 'Every 15 minutes').When).toBe('Every 15 minutes')
  })

  it('says what is special', () => {
    const special = text(
      job({
        retry: { maxRetries: 2, backoff: ['1s', '10s'], base: '5s', cap: '1h' },
        timeout: '5m',
        priority: 'high',
        maxRuns: 3,
        calendars: ['holidays'],
        concurrency: { key: 'db', limit: 2 },
        delivery: 'at_most_once',
      }),
    )
    expect(special['If it fails']).toBe('Tried again up to 2 times, after 1s, 10s.')
    expect(special.Limits).toBe('At most 3 times.')
    expect(special.Calendars).toBe('Skips fires in closed times of holidays.')
    expect(special.Priority).toBe('High.')
    expect(special.Concurrency).toContain('db')
    expect(special.Delivery).toContain('At most once')
  })

  it('names what it runs', () => {
    expect(taskWords(job()).code).toBe('python3 etl.py')
    expect(
      taskWords(
        job({
          task: { kind: 'http', url: 'https://x/', method: 'GET', headers: {}, acceptedStatuses: [], breaker: true },
        }),
      ).code,
    ).toBe('GET https://x/')
    const { task: _, ...rest } = job({ taskId: 'mail' })
    expect(taskWords(rest).code).toBe('mail')
  })
})
