/**
 * An action on all items that a filter selects. The API processes them in one request or in several; each request
 * continues at the cursor of the previous answer.
 */

export type BulkPage = {
  matched: number
  changed: number
  skipped: number
  failed: readonly { runId?: string; jobId?: string; error: { detail: string } }[]
  nextCursor?: string | null
}

export type BulkSum = {
  /** The number of items that were processed. */
  matched: number
  changed: number
  skipped: number
  /** The first items that were refused, each with the id of the run or the job and the reason. */
  failed: readonly { id: string; detail: string }[]
}

/** The progress of an action. After a failed request, the action can continue from it. */
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

/** Returns the reason without `job j_1` or `run r_1` at its beginning, because the id is shown beside it. */
function withoutId(detail: string, id: string): string {
  for (const start of [`job ${id} `, `run ${id} `]) if (detail.startsWith(start)) return detail.slice(start.length)
  return detail
}

/**
 * Sends requests, one after the other, until all items are processed or `stopped` returns true. If a request fails, its
 * error is thrown; the action can continue from the last progress that `onProgress` received.
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
