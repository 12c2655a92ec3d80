import { choice, text } from '@/lib/search'
import { instant } from '@/lib/time'
import type { LedgerPlace } from './ledger/tab'

export const TABS = ['overview', 'runs', 'ledger', 'definition', 'versions'] as const
export type Tab = (typeof TABS)[number]

export type JobSearch = { tab: Tab; place: LedgerPlace | null; version: number | null }

/** Reads the search parameters of the page, such as `?tab=ledger&period=day&at=2026-11-18T00:00:00.000Z`. */
export function readSearch(raw: Record<string, unknown>): JobSearch {
  const at = instant(text(raw, 'at'))
  const level = choice(raw, 'period', ['month', 'day', 'hour'] as const)
  const version = Number(text(raw, 'version'))
  return {
    tab: choice(raw, 'tab', TABS) ?? 'overview',
    place: at === null && level === undefined ? null : { level: level ?? 'month', at: at ?? Date.now() },
    version: Number.isInteger(version) && version > 0 ? version : null,
  }
}
