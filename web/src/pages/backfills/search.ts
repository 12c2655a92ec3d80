import { compact, text } from '@/lib/search'

export type BackfillsSearch = {
  jobId?: string | undefined
  /** The id of the open backfill. */
  backfill?: string | undefined
}

export function backfillsSearch(raw: Record<string, unknown>): BackfillsSearch {
  return compact({ jobId: text(raw, 'jobId'), backfill: text(raw, 'backfill') })
}
