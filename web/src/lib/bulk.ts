/** An action over a filter. The API does it in one request, or in several, each after the cursor of the last. */

export type BulkPage = {
  matched: number
  changed: number
  skipped: number
  failed: readonly { runId?: string; jobId?: string; error: { detail: string } }[]
  nextCursor?: string | null
}

export type BulkSum = {
  /** How many were processed. */
  matched: number
  changed: number
  skipped: number
  /** The first refusals, each with the id of the run or the job. */
  failed: readonly { id: string; detail: string }[]
}

/** How far an action is: it can continue from here after a failure. */
export type BulkProgress = { sum: BulkSum; cursor: string | null; ended: boolean }

export const BULK_START: BulkProgress = {
  sum: { matched: 0, changed: 0, skipped: 0, failed: [] },
  cursor: null,
  ended: false,
}

const MAX_FAILURES = 200

export function plusPage(sum: BulkSum, page: BulkPage): BulkSum {
  const failed = page.failed.map(item => {
    const id = item.jobId ?? item.runId ?? ''
    return { id, detail: withoutId(item.error.detail, id) }
  })
  return {
    matched: sum.matched + page.matched,
    changed: sum.changed + page.changed,
    skipped: sum.skipped + page.skipped,
    failed: [...sum.failed, ...failed].slice(0, MAX_FAILURES),
  }
}

/** The reason without `job j_1` or `run r_1` in front, which stands beside it. */
function withoutId(detail: string, id: string): string {
  for (const start of [`job ${id} `, `run ${id} `]) if (detail.startsWith(start)) return detail.slice(start.length)
  return detail
}

/**
 * Sends one request after the other until all are processed, or `stopped` says so. A request that fails is thrown: what
 * `onProgress` got last is where to continue.
 */
export async function actInPages(
  from: BulkProgress,
  send: (cursor: string | null) => Promise<BulkPage>,
  onProgress: (progress: BulkProgress) => void,
  stopped: () => boolean = () => false,
): Promise<BulkProgress> {
  let progress = from
  while (!progress.ended && !stopped()) {
    const page = await send(progress.cursor)
    const cursor = page.nextCursor ?? null
    progress = { sum: plusPage(progress.sum, page), cursor, ended: cursor === null }
    onProgress(progress)
  }
  return progress
}
