import { describe, expect, it } from 'vitest'
import { Coalescer } from './coalesce'
import { SseParser } from './sse'
import { touchedBy } from './touched'
import type { TimeballEvent } from './types'

describe('the stream', () => {
  const text =
    ': hello\n\nid: 7-1\nevent: timeball.run.started\ndata: {"a":1}\n\nevent: reset\r\ndata: {}\r\n\r\ndata: x\ndata: y\n\n'
  const frames = [
    { id: '7-1', event: 'timeball.run.started', data: '{"a":1}' },
    { id: '7-1', event: 'reset', data: '{}' },
    { id: '7-1', event: 'message', data: 'x\ny' },
  ]

  it('is read as frames', () => {
    expect(new SseParser().push(text)).toEqual(frames)
  })

  it('does not depend on the borders of chunks', () => {
    for (let size = 1; size < 9; size++) {
      const parser = new SseParser()
      const found = []
      for (let at = 0; at < text.length; at += size) found.push(...parser.push(text.slice(at, at + size)))
      expect(found).toEqual(frames)
    }
  })

  it('says where it is, also when only an id came', () => {
    const parser = new SseParser()
    expect(parser.push(': alive\nid: 7-9\n\n')).toEqual([])
    expect(parser.lastId).toBe('7-9')
  })

  it('refuses a line without end', () => {
    const parser = new SseParser()
    expect(() => parser.push('x'.repeat(1_000_001))).toThrow('too long')
  })
})

describe('what an event makes old', () => {
  const event = (type: string, data: unknown): TimeballEvent => ({ id: '1', type, subject: null, time: '', data })

  it('is the run, its job, and the lists', () => {
    const touched = touchedBy(event('timeball.run.succeeded', { runId: 'r_1', jobId: 'j_1' }))
    expect(touched).toContainEqual(['run', 'r_1'])
    expect(touched).toContainEqual(['job', 'j_1'])
    expect(touched).toContainEqual(['jobs'])
    expect(touched).toContainEqual(['workers'])
    expect(touched).not.toContainEqual(['run'])
  })

  it('is every run when a summary does not name them all', () => {
    const data = {
      count: 500,
      runs: ['r_1'],
      jobs: { j_1: { succeeded: 500 } },
      jobsTruncated: false,
      statuses: {},
      tags: {},
    }
    expect(touchedBy(event('timeball.runs.changed', data))).toContainEqual(['run'])
    expect(touchedBy(event('timeball.runs.changed', { ...data, count: 1 }))).not.toContainEqual(['run'])
  })

  it('is little for a report of progress', () => {
    expect(touchedBy(event('timeball.run.progress', { runId: 'r_1' }))).not.toContainEqual(['stats'])
  })
})

describe('refreshes', () => {
  function make() {
    const refreshed: string[] = []
    let now = 0
    const timers: { at: number; run: () => void }[] = []
    const coalescer = new Coalescer<readonly string[]>(
      () => 1000,
      items => refreshed.push(...items.map(item => `${now}:${item.join('/')}`)),
      { now: () => now, set: (run, ms) => timers.push({ at: now + ms, run }) },
    )
    const advance = (ms: number) => {
      const until = now + ms
      for (;;) {
        const next = timers.filter(timer => timer.at <= until).sort((a, b) => a.at - b.at)[0]
        if (next === undefined) break
        timers.splice(timers.indexOf(next), 1)
        now = next.at
        next.run()
      }
      now = until
    }
    return { coalescer, refreshed, advance }
  }

  it('follow a flood once per period, and its end', () => {
    const { coalescer, refreshed, advance } = make()
    for (let i = 0; i < 250; i++) {
      coalescer.touch([['jobs']])
      advance(10)
    }
    advance(5000)
    expect(refreshed).toEqual(['0:jobs', '1000:jobs', '2000:jobs', '3000:jobs'])
  })

  it('wait while the page is hidden, and are not forgotten', () => {
    const { coalescer, refreshed, advance } = make()
    coalescer.pause()
    coalescer.touch([['jobs'], ['run', 'r_1']])
    advance(10_000)
    expect(refreshed).toEqual([])
    coalescer.resume()
    expect(refreshed).toEqual(['10000:jobs', '10000:run/r_1'])
  })

  it('of different things do not wait for each other', () => {
    const { coalescer, refreshed } = make()
    coalescer.touch([['run', 'r_1']])
    coalescer.touch([['run', 'r_2']])
    expect(refreshed).toEqual(['0:run/r_1', '0:run/r_2'])
  })
})
