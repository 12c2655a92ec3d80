import { describe, expect, it } from 'vitest'
import { LogBuffer, type LogChunk } from './buffer'

const chunk = (seq: number, text: string, rest: Partial<LogChunk> = {}): LogChunk => ({
  attempt: 1,
  seq,
  stream: 'stdout',
  at: `at-${seq}`,
  text,
  ...rest,
})

const lines = (log: LogBuffer) => Array.from({ length: log.end - log.first }, (_, i) => log.text(log.first + i))

describe('LogBuffer', () => {
  it('joins lines that chunks cut, and knows whether the last one is open', () => {
    const log = new LogBuffer()
    log.append(chunk(0, 'one\ntw'))
    expect(log.open).toBe(true)
    log.append(chunk(1, 'o\n\nthree\n'))
    expect(lines(log)).toEqual(['one', 'two', '', 'three'])
    expect(log.open).toBe(false)
    log.append(chunk(2, 'four'))
    log.append(chunk(3, ' is long'))
    log.append(chunk(4, '\n'))
    expect(lines(log)).toEqual(['one', 'two', '', 'three', 'four is long'])
    expect(log.open).toBe(false)
  })

  it('begins a new line where the stream changes, and remembers stream and time', () => {
    const log = new LogBuffer()
    log.append(chunk(0, 'out'))
    log.append(chunk(1, 'err\n', { stream: 'stderr' }))
    log.append(chunk(2, 'a\nb\n'))
    expect(lines(log)).toEqual(['out', 'err', 'a', 'b'])
    expect([0, 1, 2, 3].map(i => log.line(i).stream)).toEqual(['stdout', 'stderr', 'stdout', 'stdout'])
    expect(log.line(3).at).toBe('at-2')
  })

  it('puts a heading before every attempt but the first', () => {
    const log = new LogBuffer()
    log.append(chunk(0, 'a\n'))
    log.append(chunk(0, 'b\n', { attempt: 2 }))
    expect(lines(log)).toEqual(['a', 'Attempt 2', 'b'])
    expect(log.line(1).stream).toBe('attempt')
    expect(log.attempts).toEqual([
      { attempt: 1, line: 0 },
      { attempt: 2, line: 1 },
    ])
    expect(log.cursor).toBe('2000000')
  })

  it('refuses a chunk that it has passed', () => {
    const log = new LogBuffer()
    log.append(chunk(4, 'a\n'))
    expect(log.append(chunk(0, 'again\n'))).toBe(false)
    expect(lines(log)).toEqual(['a'])
  })

  it('drops the oldest lines beyond its limit, and keeps the numbers of the others', () => {
    const log = new LogBuffer(100_000)
    for (let i = 0; i < 500; i++) log.append(chunk(i, `${'x'.repeat(99)}\n`.repeat(100)))
    expect(log.end).toBe(50_000)
    expect(log.first).toBeGreaterThan(0)
    expect(log.length).toBeLessThanOrEqual(100_000 + 4096 * 99)
    expect(log.text(49_999)).toBe('x'.repeat(99))
    expect(log.line(49_999).at).toBe('at-499')
    expect(log.text(0)).toBe('')
  })
})
