/** Builds URLs. The page may be served below any path prefix, so all URLs are relative to the base of the document. */

export function baseUrl(): URL {
  return new URL('.', document.baseURI)
}

/** Returns the absolute URL of an API path, such as `/v1/jobs`. */
export function apiUrl(path: string): string {
  return new URL(path.replace(/^\//, ''), baseUrl()).href
}

export type QueryValue = string | number | boolean | null | undefined | readonly (string | number)[]

/**
 * Returns a query string such as `?a=1&b=2&b=3`, or an empty text. Empty values are omitted; a list repeats its name.
 */
export function queryString(query: Readonly<Record<string, QueryValue>> | undefined): string {
  if (query === undefined) return ''
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === '') continue
    if (Array.isArray(value)) for (const item of value) params.append(name, String(item))
    else params.append(name, String(value))
  }
  const text = params.toString()
  return text === '' ? '' : `?${text}`
}

/** Parses a query string. A name that occurs once has a string as its value, one that occurs several times a list. */
export function parseQuery(text: string): Record<string, string | string[]> {
  const found: Record<string, string | string[]> = {}
  for (const [name, value] of new URLSearchParams(text)) {
    const before = found[name]
    if (before === undefined) found[name] = value
    else if (Array.isArray(before)) before.push(value)
    else found[name] = [before, value]
  }
  return found
}

/**
 * Returns the URL if it may be used as a link, else null. Only http and https are allowed, so that a text of a job
 * cannot run code.
 */
export function safeHref(text: string): string | null {
  try {
    const url = new URL(text)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null
  } catch {
    return null
  }
}
