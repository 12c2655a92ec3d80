import { expect, it } from 'vitest'
import { agoMillis, resolveTime } from './range'

const NOW = Date.parse('2026-03-01T12:00:00Z')

it('reads relative times at the moment of use', () => {
  expect(agoMillis('15m')).toBe(900_000)
  expect(agoMillis('1w')).toBeNull()
  expect(resolveTime('24h', NOW)).toBe('2026-02-28T12:00:00.000Z')
})

it('keeps instants, and drops what is no time', () => {
  expect(resolveTime('2026-03-01T10:00:00+01:00', NOW)).toBe('2026-03-01T09:00:00.000Z')
  expect(resolveTime('yesterday-ish', NOW)).toBeUndefined()
  expect(resolveTime(undefined, NOW)).toBeUndefined()
})
