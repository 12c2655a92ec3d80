/** Ranges of time in an address: `1h` is relative to the moment at which the list is read, anything else an instant. */

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds of `15m`, `24h`, `7d`; null for anything else. */
export function agoMillis(text: string): number | null {
  const match = /^(\d{1,6})([smhd])$/.exec(text)
  const unit = UNITS[match?.[2] ?? '']
  return match === null || unit === undefined ? null : Number(match[1]) * unit
}

/** An RFC 3339 time for the API: `1h` becomes an hour before `now`. Undefined for text that means no time. */
export function resolveTime(text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined
  const ago = agoMillis(text)
  if (ago !== null) return new Date(now - ago).toISOString()
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : new Date(at).toISOString()
}
