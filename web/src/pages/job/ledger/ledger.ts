import type { RunStatus, Verdict } from '@/api/types'
import { instant } from '@/lib/time'
import type { Period } from './periods'

/** Every due instant of a job, with its verdict, sorted into the parts of a period. */

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

/** One cell: a due instant, or several in a row that share one verdict and never ran. */
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

/** What is in both, added. */
export function addCounts(all: readonly Counts[]): Counts {
  const sum: Counts = {}
  for (const counts of all)
    for (const verdict of VERDICT_ORDER) {
      const value = counts[verdict] ?? 0
      if (value > 0) sum[verdict] = (sum[verdict] ?? 0) + value
    }
  return sum
}

/** The verdicts that a day shows first when it has room for one: the worst. */
const WORST: readonly Verdict[] = ['missed', 'late', 'caught_up', 'skipped', 'cancelled', 'open', 'on_time']

export function worstOf(counts: Counts): Verdict | null {
  return WORST.find(verdict => (counts[verdict] ?? 0) > 0) ?? null
}

/**
 * Sorts fires into periods, which are in order and without gaps. A span of fires that reaches over the end of a period
 * is divided as if its fires were evenly far apart, so that the sums of the parts add up to the sum of all. Fires of a
 * span before or after the periods count in the first or the last one.
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
    // Fires are at at + k * gap: those before the end of this period that are in no piece yet.
    const upTo = index === last ? count : Math.min(count, Math.ceil((end - at) / gap))
    if (upTo <= done) continue
    pieces.push({ index, from: at + done * gap, to: at + (upTo - 1) * gap, count: upTo - done })
    done = upTo
  }
  return pieces
}

/** The period that contains an instant; the first or the last one for what is outside. */
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

/** Fires that the sum knows and the list does not: of old days only the sums are kept. */
export function removedFires(due: number, buckets: readonly Bucket[]): number {
  return Math.max(0, due - buckets.reduce((sum, bucket) => sum + bucket.total, 0))
}
