import type { StatsWindow } from '@/api/types'
import { choice, compact, text } from '@/lib/search'

export const WINDOWS = ['5m', '1h', '24h'] as const satisfies readonly StatsWindow[]
export const LANES = ['auto', 'job', 'tag'] as const

export type OverviewSearch = {
  window?: StatsWindow | undefined
  by?: (typeof LANES)[number] | undefined
  q?: string | undefined
  view?: 'table' | undefined
}

export function overviewSearch(raw: Record<string, unknown>): OverviewSearch {
  return compact({
    window: choice(raw, 'window', WINDOWS),
    by: choice(raw, 'by', LANES),
    q: text(raw, 'q'),
    view: choice(raw, 'view', ['table']),
  })
}
