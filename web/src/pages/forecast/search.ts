import { choice, compact, text } from '@/lib/search'
import { instant } from '@/lib/time'

export const MEASURES = ['load', 'fires'] as const
export type Measure = (typeof MEASURES)[number]

export type ForecastSearch = {
  /** What the colours of the map mean. */
  show?: Measure | undefined
  view?: 'table' | undefined
  /** The beginning of the hour that is open, as an RFC 3339 time. */
  at?: string | undefined
}

export function forecastSearch(raw: Record<string, unknown>): ForecastSearch {
  const at = text(raw, 'at')
  return compact({
    show: choice(raw, 'show', MEASURES),
    view: choice(raw, 'view', ['table']),
    at: instant(at) === null ? undefined : at,
  })
}
