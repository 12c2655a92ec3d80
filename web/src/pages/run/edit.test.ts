import { expect, it } from 'vitest'
import { editOf } from './edit'

it('says only what changed, and removes with null', () => {
  expect(editOf({ a: 1, b: [1], c: 'x' }, '{"a": 2, "b": [1], "d": null}', '5m', '5m')).toEqual({
    edit: { parameters: { a: 2, c: null, d: null } },
  })
  expect(editOf({ a: 1 }, '{"a": 1}', '', '')).toEqual({ edit: {} })
  expect(editOf({}, '', '5m', '10m')).toEqual({ edit: { timeout: '10m' } })
  expect(editOf({}, '', '5m', ' ')).toEqual({ edit: { timeout: null } })
})

it('says what is wrong with the text', () => {
  expect(editOf({}, '[1]', '', '')).toEqual({ error: 'Parameters are an object: {"name": value}.' })
  expect(editOf({}, '{', '', '')).toHaveProperty('error')
})
