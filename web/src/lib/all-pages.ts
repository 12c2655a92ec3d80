import type { Page } from '@/api/types'

const MAX_ITEMS = 2000

/** Fetches all pages of a list that is usually short, such as calendars, up to a limit. */
export async function allPages<T>(
  read: (cursor: string | undefined) => Promise<Page<T>>,
): Promise<{ items: T[]; more: boolean }> {
  const items: T[] = []
  let cursor: string | undefined
  do {
    const page = await read(cursor)
    items.push(...page.items)
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined && items.length < MAX_ITEMS)
  return { items, more: cursor !== undefined }
}
