import { describe, expect, test } from 'vitest'
import { readProviderAnswer } from './provider-answer'
import { signInSearch } from './searches'

describe('the answer of the identity provider', () => {
  test('a code comes with its state', () => {
    expect(readProviderAnswer('?code=c&state=s&iss=https%3A%2F%2Fid')).toEqual({
      code: 'c',
      state: 's',
      iss: 'https://id',
    })
    expect(readProviderAnswer('?code=c&state=s')).toEqual({ code: 'c', state: 's', iss: null })
  })

  test.each(['', '?next=/jobs', '?code=c', '?state=s', '?error=access_denied'])('%s is no answer', query => {
    expect(readProviderAnswer(query)).toBeNull()
  })

  test('an error is shown only if it is a word', () => {
    expect(readProviderAnswer('?error=access_denied&state=s')).toEqual({ error: 'access_denied' })
    expect(readProviderAnswer('?error=Call%20this%20number&state=s')).toEqual({ error: 'unknown_error' })
  })
})

describe('the page to open after the sign-in', () => {
  test.each(['/', '/jobs', '/jobs/j_1?tab=runs', '/runs?q=ä//b'])('%s is a page', next => {
    expect(signInSearch({ next })).toEqual({ next })
  })

  test.each([
    'https://evil.example',
    '//evil.example',
    '/\\evil.example',
    '\\/evil.example',
    '/\t/evil.example',
    '/\n/evil.example',
    '/\r\\evil.example',
    '\t//evil.example',
    ' //evil.example',
    'javascript:alert(1)',
    'jobs',
  ])('%j is no page', next => {
    expect(signInSearch({ next })).toEqual({})
  })
})
