import { describe, expect, it } from 'vitest'
import { choice, list, text } from './search'
import { parseQuery, queryString, safeHref } from './url'

describe('search parameters', () => {
  it('are read as they were written', () => {
    const query = { status: ['failed', 'dead'], tag: 'a&b=c', q: 'ü' }
    expect(parseQuery(queryString(query).slice(1))).toEqual(query)
  })

  it('leave out what is empty', () => {
    expect(queryString({ a: '', b: undefined, c: null, d: [] })).toBe('')
    expect(queryString(undefined)).toBe('')
  })

  it('are limited to what a page knows', () => {
    const raw = { status: ['failed', 'nonsense', 'failed'], q: ['x', 'y'], kind: 'shell', n: 7 }
    expect(list(raw, 'status', ['failed', 'dead'])).toEqual(['failed'])
    expect(text(raw, 'q')).toBe('x')
    expect(text(raw, 'n')).toBe('7')
    expect(choice(raw, 'kind', ['http'])).toBeUndefined()
  })
})

describe('links', () => {
  it('lead to http and https alone', () => {
    expect(safeHref('https://example.com/a')).toBe('https://example.com/a')
    expect(safeHref('javascript:alert(1)')).toBeNull()
    expect(safeHref(' java\nscript:alert(1)')).toBeNull()
    expect(safeHref('data:text/html,x')).toBeNull()
    expect(safeHref('not a link')).toBeNull()
  })
})
