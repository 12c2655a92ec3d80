import { describe, expect, it } from 'vitest'
import { LogBuffer } from './buffer'
import { LogScan, MAX_MATCHES, nextMatch, occurrences } from './search'

function logOf(text: string): LogBuffer {
  const log = new LogBuffer()
  log.append({ attempt: 1, seq: 0, stream: 'stdout', at: '', text })
  return log
}

const never = () => false

describe('LogScan', () => {
  it('finds text without regard to case and through colours', () => {
    const log = logOf('ok\nAn \u001b[31mErr\u001b[0mor\nerror.*\n')
    const scan = new LogScan('error', false)
    expect(scan.advance(log, never)).toBe(true)
    expect(scan.lines).toEqual([1, 2])
    const exact = new LogScan('Error', true)
    exact.advance(log, never)
    expect(exact.lines).toEqual([1])
    const literal = new LogScan('.*', false)
    literal.advance(log, never)
    expect(literal.lines).toEqual([2])
  })

  it('continues with what arrives, and reads an open line when it is complete', () => {
    const log = logOf('a\nhal')
    const scan = new LogScan('half', false)
    scan.advance(log, never)
    expect(scan.isDone(log)).toBe(true)
    log.append({ attempt: 1, seq: 1, stream: 'stdout', at: '', text: 'f\nhalf\n' })
    expect(scan.isDone(log)).toBe(false)
    scan.advance(log, never)
    expect(scan.lines).toEqual([1, 2])
  })

  it('stops when its time is over, and keeps a bounded number of lines', () => {
    const log = logOf('x\n'.repeat(MAX_MATCHES + 5000))
    const scan = new LogScan('x', false)
    let slices = 0
    scan.advance(log, () => slices++ >= 1)
    expect(scan.count).toBe(2000)
    scan.advance(log, never)
    expect(scan.count).toBe(MAX_MATCHES + 5000)
    expect(scan.lines).toHaveLength(MAX_MATCHES)
  })
})

describe('matches', () => {
  it('gives the places in a line', () => {
    expect(occurrences('abcABC', 'b', false)).toEqual([
      [1, 2],
      [4, 5],
    ])
    expect(occurrences('abcABC', 'B', true)).toEqual([[4, 5]])
    expect(occurrences('a', '', false)).toEqual([])
  })

  it('goes to the next and the previous match, around the ends', () => {
    expect(nextMatch([2, 5, 9], 2, 1)).toBe(5)
    expect(nextMatch([2, 5, 9], 9, 1)).toBe(2)
    expect(nextMatch([2, 5, 9], 5, -1)).toBe(2)
    expect(nextMatch([2, 5, 9], 2, -1)).toBe(9)
    expect(nextMatch([2, 5, 9], -1, 1)).toBe(2)
    expect(nextMatch([], 0, 1)).toBeNull()
  })
})
