import { choice, compact, text } from '@/lib/search'
import { instant } from '@/lib/time'

export const MEASURES = ['load', 'fires'] as const
export type Measure = (typeof MEASURES)[number]

export type ForecastSearch = {
  /** The quantity that the colours of the map show. */
  show?: Measure | undefined
  view?: 'table' | undefined
  /** The start of the open hour, as an RFC 3339 time. */
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
