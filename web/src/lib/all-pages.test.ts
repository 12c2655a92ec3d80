import { expect, test } from 'vitest'
import { allPages } from './all-pages'

test('pages are read until there are no more', async () => {
  const pages: Record<string, { items: number[]; nextCursor: string | null }> = {
    '': { items: [1, 2], nextCursor: 'b' },
    b: { items: [3], nextCursor: null },
  }
  const read = async (cursor: string | undefined) => pages[cursor ?? ''] ?? { items: [], nextCursor: null }
  expect(await allPages(read)).toEqual({ items: [1, 2, 3], more: false })
})

test('a list without end is cut', async () => {
  const page = { items: Array.from({ length: 500 }, (_, at) => at), nextCursor: 'again' }
  const found = await allPages(async () => page)
  expect([found.items.length, found.more]).toEqual([2000, true])
})
