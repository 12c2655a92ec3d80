/** Reads search parameters of an address. A value that a page cannot use is ignored. */

type Raw = Record<string, unknown>

export function text(raw: Raw, name: string): string | undefined {
  const value = raw[name]
  if (typeof value === 'string') return value === '' ? undefined : value.slice(0, 500)
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (Array.isArray(value)) return text({ [name]: value[0] as unknown }, name)
  return undefined
}

/** Returns the values of a list without duplicates. If `allowed` is given, other values are removed. */
export function list<T extends string>(raw: Raw, name: string, allowed?: readonly T[]): T[] | undefined {
  const value = raw[name]
  const values = Array.isArray(value) ? value : value === undefined ? [] : [value]
  const found = [...new Set(values.filter((item): item is string => typeof item === 'string' && item !== ''))]
  const kept = allowed === undefined ? found : found.filter(item => (allowed as readonly string[]).includes(item))
  return kept.length === 0 ? undefined : (kept.slice(0, 50) as T[])
}

export function choice<T extends string>(raw: Raw, name: string, allowed: readonly T[]): T | undefined {
  const value = text(raw, name)
  return allowed.find(item => item === value)
}

/** Removes the names whose value is undefined, so that the address contains only what the user chose. */
export function compact<T extends Raw>(values: T): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T
}
