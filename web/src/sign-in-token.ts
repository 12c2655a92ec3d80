/**
 * The token of a one-time link, such as `#/sign-in?token=…`. Browsers send the fragment of a URL to no server. The page
 * removes the token from the address at once, so that no history contains it.
 */
let token: string | null = null

export function takeSignInToken(): boolean {
  const match = /^#\/sign-in\?(.*)$/.exec(window.location.hash)
  if (match === null) return false
  token = new URLSearchParams(match[1]).get('token')
  window.history.replaceState(null, '', window.location.pathname + window.location.search)
  return token !== null
}

/** Returns the token at the first call, then null. */
export function signInToken(): string | null {
  const taken = token
  token = null
  return taken
}
