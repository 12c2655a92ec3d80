/**
 * Sign-in at the identity provider: the page leaves for the page of the provider, which sends the browser back to
 * `/sign-in` with a code and a state, or with an error, in the query. The page removes them from the address at once.
 */
export type ProviderAnswer = { code: string; state: string; iss: string | null } | { error: string }

const NEXT = 'timeball-sign-in-next'
let answer: ProviderAnswer | null = null

/** Returns the answer in a query, or null if it has none. The text of an error is one of the words of OAuth 2.0. */
export function readProviderAnswer(query: string): ProviderAnswer | null {
  const params = new URLSearchParams(query)
  const state = params.get('state')
  if (state === null) return null
  const error = params.get('error')
  if (error !== null) return { error: /^[a-z_]{1,50}$/.test(error) ? error : 'unknown_error' }
  const code = params.get('code')
  return code === null ? null : { code, state, iss: params.get('iss') }
}

export function takeProviderAnswer(): boolean {
  if (!window.location.pathname.endsWith('/sign-in')) return false
  answer = readProviderAnswer(window.location.search)
  if (answer === null) return false
  window.history.replaceState(null, '', window.location.pathname)
  return true
}

/** Returns the answer at the first call, then null. */
export function providerAnswer(): ProviderAnswer | null {
  const taken = answer
  answer = null
  return taken
}

/** Stores the page to open after the sign-in, for this tab. */
export function keepNext(next: string | undefined): void {
  try {
    if (next === undefined) sessionStorage.removeItem(NEXT)
    else sessionStorage.setItem(NEXT, next)
  } catch {
    // A browser without storage opens the overview after the sign-in.
  }
}

export function keptNext(): string | undefined {
  try {
    return sessionStorage.getItem(NEXT) ?? undefined
  } catch {
    return undefined
  }
}
