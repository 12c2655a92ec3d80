import { describe, expect, test } from 'vitest'
import { asKind, expressionOf, fieldsOf, simpleExpression, simpleOf } from './cron'
import { changeOf, cloneOf, documentOf, parseText, testJobOf, textOf, valueAt, withValue } from './document'
import { parseDuration } from './duration'
import { addedLoad } from './load'
import { errorAt, lineOf, pointerLines, unclaimed } from './pointers'
import { retryDelays, rulesOf } from './retry'

describe('document', () => {
  const saved = {
    jobId: 'j_1',
    status: 'scheduled',
    version: 3,
    name: 'etl',
    description: '',
    task: { kind: 'http', url: 'https://example.com' },
    parameters: {},
    schedule: { type: 'cron', expression: '0 2 * * *', timezone: 'UTC', dstGap: 'run', dstOverlap: 'both' },
    retry: { maxRetries: 3, backoff: 'exponential', base: '5s', cap: '1h' },
    timeout: null,
    priority: 'high',
    scheduleType: 'cron',
    cronExpression: '0 2 * * *',
    maxRetries: 3,
    tags: ['a'],
    nextFireAt: '2026-01-01T00:00:00Z',
  }

  test('is what a user would write', () => {
    expect(documentOf(saved)).toEqual({
      name: 'etl',
      task: { kind: 'http', url: 'https://example.com' },
      schedule: { type: 'cron', expression: '0 2 * * *', timezone: 'UTC', dstOverlap: 'both' },
      priority: 'high',
      tags: ['a'],
    })
  })

  test('survives the way to text and back', () => {
    const document = documentOf(saved)
    const parsed = parseText(textOf(document))
    expect('document' in parsed && parsed.document).toEqual(document)
  })

  test('changes one value and keeps the rest and its order', () => {
    const document = { name: 'a', unknown: [1], task: { kind: 'shell', command: 'x', env: { A: '1' } } }
    const changed = withValue(document, '/task/command', 'y')
    expect(changed).toEqual({ name: 'a', unknown: [1], task: { kind: 'shell', command: 'y', env: { A: '1' } } })
    expect(Object.keys(changed.task as object)).toEqual(['kind', 'command', 'env'])
    expect(document.task.command).toBe('x')
  })

  test('takes objects away that became empty', () => {
    expect(withValue({ retry: { base: '1s' } }, '/retry/base', undefined)).toEqual({})
    expect(withValue({ retry: { base: '1s', cap: '2s' } }, '/retry/base', undefined)).toEqual({ retry: { cap: '2s' } })
    expect(withValue({}, '/retry/base', '1s')).toEqual({ retry: { base: '1s' } })
  })

  test('reads through pointers with escapes, and not through prototypes', () => {
    expect(valueAt({ 'a/b': { '~': 1 } }, '/a~1b/~0')).toBe(1)
    expect(valueAt({}, '/constructor')).toBeUndefined()
    expect(withValue({}, '/__proto__/x', 1)).not.toHaveProperty('x')
  })

  test('says in which line text breaks', () => {
    const parsed = parseText('{\n  "name": x\n}')
    expect('error' in parsed && parsed.line === null ? 2 : 'error' in parsed && parsed.line).toBe(2)
    expect('error' in parseText('[]')).toBe(true)
  })

  test('an update names what changed, and null for what is gone', () => {
    const before = documentOf(saved)
    expect(changeOf(before, { ...before, priority: 'low' })).toEqual({ priority: 'low' })
    expect(changeOf(before, withValue(before, '/tags', undefined))).toEqual({ tags: null })
    expect(changeOf({ task: { kind: 'python', function: 'f' } }, { taskId: 't' })).toEqual({ taskId: 't' })
    const retry = { retry: { maxRetries: 5, base: '1s' } }
    expect(changeOf(retry, { retry: { maxRetries: 5 } })).toEqual({ retry: { maxRetries: 5, base: '5s' } })
    expect(changeOf(before, before)).toEqual({})
  })

  test('a clone has another name, a test runs once', () => {
    expect(cloneOf({ name: 'etl' }).name).toBe('etl-copy')
    expect(
      testJobOf({ name: 'etl', task: { kind: 'python', function: 'f' }, schedule: { type: 'cron' }, maxRuns: 3 }),
    ).toEqual({
      name: 'etl (test)',
      task: { kind: 'python', function: 'f' },
      schedule: { type: 'immediate' },
      retry: { maxRetries: 0 },
      tags: ['test'],
    })
  })
})

describe('pointers', () => {
  const text = textOf({ name: 'a "quoted" {name}', task: { kind: 'shell', command: ['a', 'b'], env: {} }, tags: [] })
  const lines = pointerLines(text)

  test('know the line of each value', () => {
    expect(lines.get('/name')).toBe(2)
    expect(lines.get('/task/kind')).toBe(4)
    expect(lines.get('/task/command/1')).toBe(7)
    expect(lines.get('/tags')).toBe(11)
  })

  test('fall back to what is around a missing value', () => {
    expect(lineOf(lines, '/task/url')).toBe(3)
    expect(lineOf(lines, '/retry')).toBe(1)
    expect(pointerLines('{').size).toBe(0)
  })

  test('bring errors to their fields', () => {
    const errors = [
      { pointer: '/task/headers/X', detail: 'bad' },
      { pointer: '/other', detail: 'odd' },
    ]
    expect(errorAt(errors, '/task/headers')).toBe('bad')
    expect(errorAt(errors, '/task/head')).toBeUndefined()
    expect(unclaimed(errors, ['/task/headers'])).toEqual([errors[1]])
  })
})

describe('retry', () => {
  test('durations are read as the API reads them', () => {
    expect(['90s', '1h30m', '500ms', '7', 7, '1.5s', '', 'x', -1].map(parseDuration)).toEqual([
      90_000,
      5_400_000,
      500,
      7000,
      7000,
      null,
      null,
      null,
      null,
    ])
  })

  const delays = (retry: object) => retryDelays(rulesOf(retry))?.map(delay => delay.ms)

  test('doubles, grows, stays, or follows a list, up to the cap', () => {
    expect(delays({})).toEqual([10_000, 20_000, 40_000])
    expect(delays({ backoff: 'linear', base: '1m', maxRetries: 3, cap: '2m' })).toEqual([60_000, 120_000, 120_000])
    expect(delays({ backoff: 'fixed', base: '1s', maxRetries: 2 })).toEqual([1000, 1000])
    expect(delays({ backoff: ['1s', '5s'], maxRetries: 3 })).toEqual([1000, 5000, 5000])
    expect(delays({ maxRetries: 0 })).toEqual([])
    expect(delays({ base: 'x' })).toBeUndefined()
    expect(delays({ maxRetries: 100, base: '1d' })?.at(-1)).toBe(3_600_000)
  })

  test('varies by ten percent, never above the cap', () => {
    const [first] = retryDelays(rulesOf({ base: '5s', maxRetries: 1 })) ?? []
    expect([first?.least, first?.most]).toEqual([9000, 11_000])
    const [fixed] = retryDelays(rulesOf({ base: '5s', backoff: 'fixed', maxRetries: 1 })) ?? []
    expect([fixed?.least, fixed?.most]).toEqual([5000, 5000])
    const [capped] = retryDelays(rulesOf({ base: '5s', cap: '8s', maxRetries: 1 })) ?? []
    expect([capped?.most, capped?.capped]).toEqual([8000, true])
  })
})

describe('cron', () => {
  test.each([
    ['* * * * *', { kind: 'minutes', every: 1 }],
    ['*/15 * * * *', { kind: 'minutes', every: 15 }],
    ['5 * * * *', { kind: 'hourly', minute: 5 }],
    ['30 2 * * *', { kind: 'daily', hour: 2, minute: 30 }],
    ['0 9 * * 1-5', { kind: 'weekly', days: [1, 2, 3, 4, 5], hour: 9, minute: 0 }],
    ['0 9 * * 1,3,0', { kind: 'weekly', days: [1, 3, 0], hour: 9, minute: 0 }],
    ['0 9 1 * *', { kind: 'monthly', day: 1, hour: 9, minute: 0 }],
    ['0 9 24 12 *', { kind: 'yearly', month: 12, day: 24, hour: 9, minute: 0 }],
  ] as const)('%s is a common shape, both ways', (expression, simple) => {
    expect(simpleOf(expression)).toEqual(simple)
    expect(simpleExpression(simple as Parameters<typeof simpleExpression>[0])).toBe(expression)
  })

  test('reads names, nicknames and Sunday as 7', () => {
    expect(simpleOf('@daily')).toEqual({ kind: 'daily', hour: 0, minute: 0 })
    expect(simpleOf('0 9 * * fri-mon')).toEqual({ kind: 'weekly', days: [1, 5, 6, 0], hour: 9, minute: 0 })
    expect(simpleOf('0 9 * * 7')).toEqual({ kind: 'weekly', days: [0], hour: 9, minute: 0 })
  })

  test.each([
    '*/7 * * * *',
    '0 9 L * *',
    'H 2 * * *',
    '0 9 1 * 1',
    '1,2 9 * * *',
    '0 99 * * *',
    'x',
    '',
    '30 0 9 * * *',
  ])('%s has fields only', expression => expect(simpleOf(expression)).toBeNull())

  test('keeps seconds in the fields', () => {
    const fields = fieldsOf('30 0 9 * * MON')
    expect(fields).toEqual({ second: '30', minute: '0', hour: '9', day: '*', month: '*', weekday: 'MON' })
    expect(fields && expressionOf({ ...fields, hour: ' ' })).toBe('30 0 * * * MON')
    expect(fieldsOf('1 2 3')).toBeNull()
  })

  test('keeps the time of day when the shape changes', () => {
    expect(asKind({ kind: 'daily', hour: 2, minute: 30 }, 'monthly')).toEqual({
      kind: 'monthly',
      day: 1,
      hour: 2,
      minute: 30,
    })
    expect(asKind(null, 'minutes')).toEqual({ kind: 'minutes', every: 15 })
  })
})

test('added load falls into the hours of the forecast', () => {
  const hour = (n: number) => new Date(Date.UTC(2026, 0, 1, n)).toISOString()
  const buckets = [0, 1, 2].map(n => ({ from: hour(n), to: hour(n + 1), fires: n * 10, load: null }))
  const fires = ['2026-01-01T00:30:00Z', '2026-01-01T01:00:00Z', '2026-01-01T01:59:59Z', '2026-01-01T05:00:00Z']
  const added = addedLoad(buckets, fires, 2, false)
  expect(added.buckets.map(bucket => bucket.added)).toEqual([1, 2])
  expect([added.total, added.peak?.before, added.peak?.added, added.cut]).toEqual([3, 10, 2, false])
  expect(addedLoad(buckets, fires.slice(0, 2), 3, true).cut).toBe(true)
  expect(addedLoad([], fires, 2, false)).toEqual({ buckets: [], total: 0, peak: null, cut: false })
})
