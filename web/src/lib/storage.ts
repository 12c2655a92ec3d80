import { useSyncExternalStore } from 'react'

/** A value in localStorage. Components render again when it changes, also in other tabs. */
export type Stored<T> = { get: () => T; set: (value: T) => void; use: () => T }

export function stored<T>(name: string, fallback: T, isValid: (value: unknown) => value is T): Stored<T> {
  const key = `timeball.${name}`
  const listeners = new Set<() => void>()
  let value = read()

  function read(): T {
    try {
      const text = localStorage.getItem(key)
      if (text === null) return fallback
      const found: unknown = JSON.parse(text)
      return isValid(found) ? found : fallback
    } catch {
      return fallback // private windows without storage, or text of another version
    }
  }

  function set(next: T): void {
    value = next
    try {
      localStorage.setItem(key, JSON.stringify(next))
    } catch {
      // If localStorage cannot be written, the value is valid for this page only.
    }
    for (const listener of listeners) listener()
  }

  function subscribe(listener: () => void): () => void {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }

  if (typeof window !== 'undefined') {
    window.addEventListener('storage', event => {
      if (event.key !== key) return
      value = read()
      for (const listener of listeners) listener()
    })
  }

  const get = () => value
  return { get, set, use: () => useSyncExternalStore(subscribe, get) }
}

export const oneOf =
  <T extends string>(...values: readonly T[]) =>
  (value: unknown): value is T =>
    values.includes(value as T)
