import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api } from '@/api/client'
import { serverNow } from '@/lib/clock'
import type { Zone } from '@/lib/time'
import { type Bucket, type Counts, type LedgerItem, sortIntoPeriods, totalOf } from './ledger'
import { type Level, type Period, partsOfPeriod } from './periods'

/** Maximum number of fires that are shown as cells. With more, each part of the period shows its sums only. */
const MAX_CELLS = 4000
const PAGE_SIZE = 1000
const PARALLEL_REQUESTS = 3
const REFRESH_MS = 10_000

export type LedgerData = {
  due: number
  counts: Counts
  buckets: Bucket[]
  /** True if the parts show sums only, because there are too many fires to show each. */
  isSummed: boolean
}

export function useLedger(jobId: string, level: Level, period: Period, zone: Zone) {
  const isCurrent = period.to > serverNow()
  return useQuery({
    // The key does not begin with `job`. Otherwise each event of the job would cause a fetch of the ledger: once per
    // second for a job that fires each second.
    queryKey: ['ledger', jobId, level, period, zone],
    queryFn: ({ signal }) => readLedger(jobId, level, period, zone, signal),
    refetchInterval: isCurrent ? REFRESH_MS : false,
    staleTime: isCurrent ? 2000 : 60_000,
    placeholderData: keepPreviousData,
  })
}

async function readLedger(
  jobId: string,
  level: Level,
  period: Period,
  zone: Zone,
  signal: AbortSignal,
): Promise<LedgerData> {
  const parts = partsOfPeriod(level, period, zone)
  const ask = (range: Period, limit: number, cursor?: string) =>
    api.get('/v1/jobs/{jobId}/ledger', {
      path: { jobId },
      query: {
        from: new Date(range.from).toISOString(),
        to: new Date(range.to).toISOString(),
        limit,
        ...(cursor === undefined ? {} : { cursor }),
      },
      signal,
    })
  const first = await ask(period, PAGE_SIZE)
  const counts = first.counts as Counts
  if (first.due > MAX_CELLS) {
    const buckets = await inTurn(parts, async (part): Promise<Bucket> => {
      if (part.from > serverNow()) return { period: part, counts: {}, total: 0, cells: [] }
      const sums = (await ask(part, 1)).counts as Counts
      return { period: part, counts: sums, total: totalOf(sums), cells: [] }
    })
    return { due: first.due, counts, buckets, isSummed: true }
  }
  const items: LedgerItem[] = [...first.items]
  let cursor = first.nextCursor
  while (cursor !== null && items.length < 2 * MAX_CELLS) {
    const page = await ask(period, PAGE_SIZE, cursor)
    items.push(...page.items)
    cursor = page.nextCursor
  }
  return { due: first.due, counts, buckets: sortIntoPeriods(items, parts), isSummed: false }
}

/** Executes a few requests at a time, and returns the answers in order. */
async function inTurn<A, B>(values: readonly A[], work: (value: A) => Promise<B>): Promise<B[]> {
  const results: B[] = []
  for (let at = 0; at < values.length; at += PARALLEL_REQUESTS)
    results.push(...(await Promise.all(values.slice(at, at + PARALLEL_REQUESTS).map(work))))
  return results
}
