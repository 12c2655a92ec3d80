import { compact, text } from '@/lib/search'

/** The search parameters: the filter of the dead letters, with the names of the API, and the group that is open. */
export type LettersSearch = {
  jobId?: string | undefined
  tag?: string | undefined
  userId?: string | undefined
  taskId?: string | undefined
  startTime?: string | undefined
  endTime?: string | undefined
  group?: string | undefined
}

export type LettersFilter = Omit<LettersSearch, 'group'>

export function lettersSearch(raw: Record<string, unknown>): LettersSearch {
  return compact({
    jobId: text(raw, 'jobId'),
    tag: text(raw, 'tag'),
    userId: text(raw, 'userId'),
    taskId: text(raw, 'taskId'),
    startTime: text(raw, 'startTime'),
    endTime: text(raw, 'endTime'),
    group: text(raw, 'group'),
  })
}

export function filterOf({ group: _, ...filter }: LettersSearch): LettersFilter {
  return compact(filter)
}

/**
 * Returns the filter as the body of a request. Without any field, the body must state that it selects all dead letters.
 */
export function selectionOf(filter: LettersFilter, fingerprint?: string): Record<string, unknown> {
  const fields = { ...filter, ...(fingerprint === undefined ? {} : { fingerprint }) }
  return Object.keys(fields).length === 0 ? { all: true } : fields
}
