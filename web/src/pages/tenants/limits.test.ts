import { expect, test } from 'vitest'
import { deletionWords, formOf, limitsOf, limitWords, wrongLimits } from './limits'

test('a form gives back the limits that it was made from', () => {
  const limits = { weight: 2, jobs: 1000, prices: { run: '0.01' }, denyAddresses: ['10.0.0.0/8'] }
  expect(limitsOf(formOf(limits), limits)).toEqual(limits)
})

test('an empty field is no limit', () => {
  expect(limitsOf({ ...formOf({ jobs: 10 }), jobs: ' ' }, {})).toEqual({})
})

test('a field that is not a number is named', () => {
  const form = { ...formOf({}), weight: '0.5', jobs: '1.5', runsPerDay: 'many', storedBytes: '7' }
  expect(wrongLimits(form)).toEqual(['runsPerDay', 'jobs'])
})

test('limits are told in words', () => {
  expect(limitWords({ weight: 1 })).toEqual([])
  expect(limitWords({ weight: 2, concurrentRuns: 40, jobs: 1000 })).toEqual(['weight 2', '40 running', '1,000 jobs'])
})

test('the progress of a deletion is told in words', () => {
  const deletion = { requestedAt: '2026-11-19T00:00:00Z', requestedBy: 'root', phase: 'rows' as const, deleted: {} }
  expect(deletionWords(deletion)).toBe('its rows are deleted')
  const words = deletionWords({ ...deletion, deleted: { jobs: 1_000, objects: 234 } })
  expect(words).toBe('its rows are deleted · 1,234 deleted so far')
})
