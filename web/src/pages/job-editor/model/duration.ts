const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/**
 * Returns the milliseconds of a duration as the API accepts it: `90s`, `1h30m` or a whole number of seconds. Returns
 * null for any other value.
 */
export function parseDuration(value: unknown): number | null {
  if (typeof value === 'number') return Number.isInteger(value) && value >= 0 ? value * 1000 : null
  if (typeof value !== 'string') return null
  const text = value.trim()
  if (/^\d{1,12}$/.test(text)) return Number(text) * 1000
  if (!/^(?:\d{1,12}(?:ms|d|h|m|s))+$/.test(text)) return null
  let total = 0
  for (const [, count, unit] of text.matchAll(/(\d{1,12})(ms|d|h|m|s)/g))
    total += Number(count) * (UNITS[unit ?? ''] ?? 0)
  return total
}
