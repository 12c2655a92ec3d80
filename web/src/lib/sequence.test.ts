import { expect, it } from 'vitest'
import { sequenceStep } from './sequence'

const KNOWN = ['g j', 'g r', 'j', 'k', '?', 'Mod+k']

it('matches single keys at once', () => {
  expect(sequenceStep([], 'j', KNOWN)).toEqual({ typed: [], match: 2 })
  expect(sequenceStep([], 'Mod+k', KNOWN)).toEqual({ typed: [], match: 5 })
})

it('remembers the beginning of a sequence', () => {
  const first = sequenceStep([], 'g', KNOWN)
  expect(first).toEqual({ typed: ['g'], match: null })
  expect(sequenceStep(first.typed, 'j', KNOWN)).toEqual({ typed: [], match: 0 })
})

it('takes a key for itself when it does not continue the sequence', () => {
  expect(sequenceStep(['g'], 'k', KNOWN)).toEqual({ typed: [], match: 3 })
  expect(sequenceStep(['g'], 'g', KNOWN)).toEqual({ typed: ['g'], match: null })
  expect(sequenceStep(['g'], 'x', KNOWN)).toEqual({ typed: [], match: null })
})
