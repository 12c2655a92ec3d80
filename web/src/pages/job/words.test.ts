import { describe, expect, it } from 'vitest'
import type { Job, SloAnswer } from '@/api/types'
import { jobWords, sloText, taskWords } from './words'

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

describe('sloText', () => {
  const slo = { startWithin: '5s', objective: 99.9 }
  const window = { window: '1h', starts: 10, late: 0, burnRate: 0.5, budgetLeft: 1 }

  it('says the target alone until starts were counted', () => {
    expect(sloText(slo)).toBe('99.9 % start within 5s.')
  })

  it('says what is left of the budget', () => {
    const month = { window: '30d', starts: 4000, late: 1, burnRate: 0.25, budgetLeft: 0.75 }
    const found = { at: '', items: [], total: [window, month], capped: false } as SloAnswer
    expect(sloText(slo, found)).toBe(
      '99.9 % start within 5s. In 30d, 1 of 4000 started late: 75.0 % of the error budget is left; burn rate of the last hour 0.5.',
    )
  })
})

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
