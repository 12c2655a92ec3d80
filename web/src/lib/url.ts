/** Addresses. The page may be served below any prefix: everything is relative to the document's base. */

export function baseUrl(): URL {
  return new URL('.', document.baseURI)
}

/** The absolute address of an API path, such as `/v1/jobs`. */
export function apiUrl(path: string): string {
  return new URL(path.replace(/^\//, ''), baseUrl()).href
}

export type QueryValue = string | number | boolean | null | undefined | readonly (string | number)[]

/** `?a=1&b=2&b=3`, or nothing. Empty values are left out; a list repeats its name. */
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

/** The opposite: one value is a string, several are a list. */
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

/** The address if it may become a link: http and https alone, so that text from jobs cannot run code. */
export function safeHref(text: string): string | null {
  try {
    const url = new URL(text)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null
  } catch {
    return null
  }
}
