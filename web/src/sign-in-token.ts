/**
 * The token of a one-time link: `#/sign-in?token=…`. It stands in the fragment, which browsers send to no server, and
 * is removed from the address at once, so that it stays in no history.
 */
let token: string | null = null

export function takeSignInToken(): boolean {
  const match = /^#\/sign-in\?(.*)$/.exec(window.location.hash)
  if (match === null) return false
  token = new URLSearchParams(match[1]).get('token')
  window.history.replaceState(null, '', window.location.pathname + window.location.search)
  return token !== null
}

/** The token, once. */
export function signInToken(): string | null {
  const taken = token
  token = null
  return taken
}
