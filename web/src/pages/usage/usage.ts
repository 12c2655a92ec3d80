import type { Usage } from '@/api/types'
import { type Commands, cli, curl, python } from '@/lib/quote'
import { choice, compact } from '@/lib/search'
import { apiUrl, queryString } from '@/lib/url'

export const RANGES = ['7', '30', '90'] as const
export type Range = (typeof RANGES)[number]
export const GROUPS = ['day', 'job', 'user', 'tenant'] as const
export type Group = (typeof GROUPS)[number]

export type UsageSearch = { days?: Range | undefined; by?: Group | undefined }

export function usageSearch(raw: Record<string, unknown>): UsageSearch {
  return compact({ days: choice(raw, 'days', RANGES), by: choice(raw, 'by', GROUPS) })
}

/** Returns the first of the last `days` days in UTC, today included, such as `2026-11-01`. */
export function firstDay(now: number, days: Range): string {
  return new Date(now - (Number(days) - 1) * 86_400_000).toISOString().slice(0, 10)
}

/** Returns the key of a group, and the text that names it. */
export function groupOf(usage: Usage, by: Group): { id: string; name: string } {
  switch (by) {
    case 'day':
      return { id: usage.day ?? '', name: usage.day ?? '' }
    case 'job':
      return { id: usage.jobId ?? '', name: usage.jobName || usage.jobId || 'Deleted jobs' }
    case 'user':
      return { id: usage.userId ?? '', name: usage.userId || 'No user' }
    case 'tenant':
      return { id: usage.tenantId ?? '', name: usage.tenantId ?? '' }
  }
}

/** Sorts days from the newest one, and other groups by their cost, or by their time if nothing costs anything. */
export function sorted(items: readonly Usage[], by: Group): Usage[] {
  if (by === 'day') return [...items].sort((one, other) => (other.day ?? '').localeCompare(one.day ?? ''))
  const weight = (usage: Usage) => [Number(usage.cost), Number(usage.attemptSeconds)] as const
  return [...items].sort((one, other) => {
    const [mine, yours] = [weight(one), weight(other)]
    return yours[0] - mine[0] || yours[1] - mine[1]
  })
}

/** Returns a decimal number with thousands separators: 2 decimal places, or 3 significant digits below 1. */
export function amount(text: string): string {
  const number = Number(text)
  const digits = Math.abs(number) >= 1 || number === 0 ? { maximumFractionDigits: 2 } : { maximumSignificantDigits: 3 }
  return number.toLocaleString('en', digits)
}

/** Returns a number of bytes with a unit. */
export function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let [value, unit] = [bytes, 0]
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${value.toLocaleString('en', { maximumFractionDigits: unit === 0 ? 0 : 1 })} ${units[unit]}`
}

export function csvUrl(from: string, by: Group): string {
  return apiUrl('/v1/usage') + queryString({ from, groupBy: by, format: 'csv' })
}

export function usageCommands(from: string, by: Group): Commands {
  return {
    curl: curl('GET', apiUrl('/v1/usage') + queryString({ from, groupBy: by })),
    cli: cli(['usage'], { from, by }),
    python: python('usage', [], { since: from, by: [by] }),
  }
}
