import type { RunStatus, Verdict } from '@/api/types'
import { instant } from '@/lib/time'
import type { Period } from './periods'

/** Groups the fires of a job, with their verdicts, by the parts of a period. */

export type LedgerItem = {
  fireTime: string
  fireUntil: string
  count: number
  verdict: Verdict
  reason: string
  runId: string | null
  status: RunStatus
  lateMs: number | null
}

export type Counts = Partial<Record<Verdict, number>>

/** One cell: a fire, or several consecutive fires with the same verdict that have no run. */
export type Cell = { at: number; until: number; count: number; item: LedgerItem }

export type Bucket = { period: Period; counts: Counts; total: number; cells: Cell[] }

export const VERDICT_ORDER: readonly Verdict[] = [
  'on_time',
  'late',
  'caught_up',
  'skipped',
  'missed',
  'cancelled',
  'open',
]

export function totalOf(counts: Counts): number {
  return VERDICT_ORDER.reduce((sum, verdict) => sum + (counts[verdict] ?? 0), 0)
}

/** Returns the sum of several counts. */
export function addCounts(all: readonly Counts[]): Counts {
  const sum: Counts = {}
  for (const counts of all)
    for (const verdict of VERDICT_ORDER) {
      const value = counts[verdict] ?? 0
      if (value > 0) sum[verdict] = (sum[verdict] ?? 0) + value
    }
  return sum
}

/** The verdicts from the worst to the best. A day that has space for one verdict shows the worst. */
const WORST: readonly Verdict[] = ['missed', 'late', 'caught_up', 'skipped', 'cancelled', 'open', 'on_time']

export function worstOf(counts: Counts): Verdict | null {
  return WORST.find(verdict => (counts[verdict] ?? 0) > 0) ?? null
}

/**
 * Groups fires by period. The periods are sorted and have no gaps. If several fires in one item extend over the end of
 * a period, they are divided as if they were evenly spaced, so that the sums of the periods add up to the total. Fires
 * before the first or after the last period are counted in that period.
 */
export function sortIntoPeriods(items: readonly LedgerItem[], periods: readonly Period[]): Bucket[] {
  const buckets = periods.map((period): Bucket => ({ period, counts: {}, total: 0, cells: [] }))
  for (const item of items) {
    const at = instant(item.fireTime)
    if (at === null) continue
    const until = Math.max(at, instant(item.fireUntil) ?? at)
    for (const piece of divided(at, until, item.count, periods)) {
      const bucket = buckets[piece.index]
      if (bucket === undefined) continue
      bucket.counts[item.verdict] = (bucket.counts[item.verdict] ?? 0) + piece.count
      bucket.total += piece.count
      bucket.cells.push({ at: piece.from, until: piece.to, count: piece.count, item })
    }
  }
  return buckets
}

type Piece = { index: number; from: number; to: number; count: number }

function divided(at: number, until: number, count: number, periods: readonly Period[]): Piece[] {
  const first = indexOf(periods, at)
  const last = indexOf(periods, until)
  if (first === last || count <= 1) return [{ index: first, from: at, to: until, count }]
  const gap = (until - at) / (count - 1)
  const pieces: Piece[] = []
  let done = 0
  for (let index = first; index <= last; index++) {
    const end = periods[index]?.to ?? until
    // Fire number k is at `at + k * gap`. Count the fires before the end of this period that no earlier period has.
    const upTo = index === last ? count : Math.min(count, Math.ceil((end - at) / gap))
    if (upTo <= done) continue
    pieces.push({ index, from: at + done * gap, to: at + (upTo - 1) * gap, count: upTo - done })
    done = upTo
  }
  return pieces
}

/**
 * Returns the index of the period that contains an instant. Returns the first or the last one for an instant outside.
 */
function indexOf(periods: readonly Period[], at: number): number {
  let low = 0
  let high = periods.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((periods[middle]?.from ?? 0) <= at) low = middle
    else high = middle - 1
  }
  return low
}

/**
 * Returns the number of fires that are counted in the sum but not listed. The ledger keeps only the sums of old days.
 */
export function removedFires(due: number, buckets: readonly Bucket[]): number {
  return Math.max(0, due - buckets.reduce((sum, bucket) => sum + bucket.total, 0))
}
