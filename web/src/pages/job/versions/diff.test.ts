import { expect, it } from 'vitest'
import { changesBetween } from './diff'

it('names what was changed, added and removed', () => {
  expect(
    changesBetween(
      { name: 'a', schedule: { expression: '5m' }, tags: ['x', 'y'], timeout: '5m', version: 1 },
      { name: 'a', schedule: { expression: '10m' }, tags: ['x'], priority: 'high', version: 2 },
    ),
  ).toEqual([
    { path: 'priority', before: null, after: '"high"' },
    { path: 'schedule.expression', before: '"5m"', after: '"10m"' },
    { path: 'tags[1]', before: '"y"', after: null },
    { path: 'timeout', before: '"5m"', after: null },
  ])
})

it('finds nothing between equals, and knows empty values', () => {
  expect(changesBetween({ a: { b: [] } }, { a: { b: [] } })).toEqual([])
  expect(changesBetween({ a: {} }, { a: { b: 1 } })).toEqual([
    { path: 'a', before: '{}', after: null },
    { path: 'a.b', before: null, after: '1' },
  ])
})

it('stays bounded', () => {
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, i]))
  expect(changesBetween({ parameters: many }, { parameters: {} })).toHaveLength(500)
})
