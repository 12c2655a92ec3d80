/** One action over many dead letters, in steps, so that it shows its progress and can be stopped. */

export type Progress = { total: number; done: number; changed: number; failed: number; firstError: string | null }

export type Step = { matched: number; changed: number; failed: number; error: string | null }

export type BulkSource = {
  /** Ids of the next ones, oldest or newest first; empty at the end. */
  nextIds: (cursor: string | null) => Promise<{ ids: string[]; cursor: string | null }>
  act: (ids: readonly string[]) => Promise<Step>
}

/**
 * Reads all ids first, then acts on them: an action changes the list, so that cursors into it would leave some out.
 * Both stop when `stopped` says so; what was done until then stays done.
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
