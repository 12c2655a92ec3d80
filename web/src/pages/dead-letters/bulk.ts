/** Executes one action on many dead letters, in steps, so that the action shows its progress and can be stopped. */

export type Progress = { total: number; done: number; changed: number; failed: number; firstError: string | null }

export type Step = { matched: number; changed: number; failed: number; error: string | null }

export type BulkSource = {
  /** Returns the next ids, oldest or newest first; an empty list at the end. */
  nextIds: (cursor: string | null) => Promise<{ ids: string[]; cursor: string | null }>
  act: (ids: readonly string[]) => Promise<Step>
}

/**
 * Fetches all ids, and then acts on them. The action removes items from the list, so fetching the next page afterwards
 * would skip some. Both phases end when `stopped` returns true; completed steps stay in effect.
 */
export async function runBulk(
  source: BulkSource,
  stepSize: number,
  onProgress: (progress: Progress) => void,
  stopped: () => boolean,
): Promise<Progress> {
  const ids: string[] = []
  let cursor: string | null = null
  do {
    const page = await source.nextIds(cursor)
    ids.push(...page.ids)
    cursor = page.cursor
  } while (cursor !== null && !stopped())
  let progress: Progress = { total: ids.length, done: 0, changed: 0, failed: 0, firstError: null }
  onProgress(progress)
  for (let at = 0; at < ids.length && !stopped(); at += stepSize) {
    const part = ids.slice(at, at + stepSize)
    const step = await source.act(part)
    progress = {
      total: ids.length,
      done: progress.done + part.length,
      changed: progress.changed + step.changed,
      failed: progress.failed + step.failed,
      firstError: progress.firstError ?? step.error,
    }
    onProgress(progress)
  }
  return progress
}
