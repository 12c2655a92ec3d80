/**
 * Times in the parameters of an address: `1h` is an hour before the list is fetched; any other value is an RFC 3339
 * time.
 */

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Returns the milliseconds of a length such as `15m`, `24h` or `7d`; null for any other text. */
export function agoMillis(text: string): number | null {
  const match = /^(\d{1,6})([smhd])$/.exec(text)
  const unit = UNITS[match?.[2] ?? '']
  return match === null || unit === undefined ? null : Number(match[1]) * unit
}

/** Returns the RFC 3339 time for the API: for `1h`, an hour before `now`. Returns undefined if the text is no time. */
export function resolveTime(text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined
  const ago = agoMillis(text)
  if (ago !== null) return new Date(now - ago).toISOString()
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : new Date(at).toISOString()
}
