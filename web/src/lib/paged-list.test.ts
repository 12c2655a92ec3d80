import { describe, expect, it } from 'vitest'
import { ListCache, PagedList } from './paged-list'

type Row = { id: string; text: string }

/** Simulates a server with the rows 0 to `size` - 1, the highest (newest) first, in pages of three. */
function server(size: number) {
  const rows = Array.from({ length: size }, (_, at): Row => ({ id: `r${at}`, text: 'old' })).reverse()
  const calls: (string | null)[] = []
  const list = new PagedList<Row>(
    row => row.id,
    async cursor => {
      calls.push(cursor)
      const start = cursor === null ? 0 : rows.findIndex(row => row.id === cursor) + 1
      const items = rows.slice(start, start + 3).map(row => ({ ...row }))
      return { items, nextCursor: start + 3 < rows.length ? (items.at(-1)?.id ?? null) : null }
    },
  )
  return { rows, calls, list, ids: () => list.state().rows.map(row => row.id) }
}

describe('a list in pages', () => {
  it('reads page after page until the end', async () => {
    const { list, ids } = server(7)
    await list.loadMore()
    expect(ids()).toEqual(['r6', 'r5', 'r4'])
    await list.loadMore()
    await list.loadMore()
    expect(ids()).toHaveLength(7)
    expect(list.state().complete).toBe(true)
    await list.loadMore()
    expect(ids()).toHaveLength(7)
  })

  it('reads one page at a time', async () => {
    const { list, calls } = server(9)
    await Promise.all([list.loadMore(), list.loadMore(), list.loadMore()])
    expect(calls).toEqual([null])
  })

  it('shows new rows at once to a reader at the top', async () => {
    const { rows, list, ids } = server(4)
    await list.loadMore()
    rows.unshift({ id: 'n1', text: 'new' })
    await list.refresh()
    expect(ids()).toEqual(['n1', 'r3', 'r2', 'r1'])
    await list.loadMore()
    expect(ids()).toEqual(['n1', 'r3', 'r2', 'r1', 'r0'])
  })

  it('follows the order of the server, and drops what matches no longer', async () => {
    const { rows, list, ids } = server(6)
    await list.loadMore()
    await list.loadMore()
    rows.splice(1, 0, { id: 'n1', text: 'between' })
    rows.splice(0, 1)
    await list.refresh()
    expect(ids()).toEqual(['n1', 'r4', 'r3', 'r2', 'r1', 'r0'])
    expect(list.has('r5')).toBe(false)
    expect(list.patch(['r0', 'n1'], row => ({ ...row, text: 'x' }))).toBe(2)
    expect(list.state().rows.map(row => row.text)).toEqual(['x', 'old', 'old', 'old', 'old', 'x'])
  })

  it('only counts new rows for a reader further down', async () => {
    const { rows, list, ids } = server(4)
    await list.loadMore()
    list.atTop = false
    rows.unshift({ id: 'n1', text: 'new' })
    await list.refresh()
    expect(ids()).toEqual(['r3', 'r2', 'r1'])
    expect(list.state().unseen).toBe(1)
    list.showUnseen()
    expect(ids()).toEqual(['n1', 'r3', 'r2', 'r1'])
  })

  it('begins again when more rows have come than a page has', async () => {
    const { rows, list, ids } = server(4)
    await list.loadMore()
    for (let at = 0; at < 5; at++) rows.unshift({ id: `n${at}`, text: 'new' })
    await list.refresh()
    expect(ids()).toEqual(['n4', 'n3', 'n2'])
    await list.loadMore()
    expect(ids()).toEqual(['n4', 'n3', 'n2', 'n1', 'n0', 'r3'])
  })

  it('reads the pages in view again, by their cursors', async () => {
    const { rows, list, calls } = server(9)
    await list.loadMore()
    await list.loadMore()
    await list.loadMore()
    list.atTop = false
    list.range = [4, 5]
    for (const row of rows) row.text = 'changed'
    calls.length = 0
    await list.refresh()
    expect(calls).toEqual([null, 'r6'])
    expect(list.state().rows.map(row => row.text)).toEqual([
      'changed',
      'changed',
      'changed',
      'changed',
      'changed',
      'changed',
      'old',
      'old',
      'old',
    ])
  })

  it('patches rows by id, also behind rows that came later', async () => {
    const { rows, list } = server(4)
    await list.loadMore()
    rows.unshift({ id: 'n1', text: 'new' })
    await list.refresh()
    expect(list.patch(['r2', 'unknown'], row => ({ ...row, text: 'patched' }))).toBe(1)
    expect(list.state().rows.find(row => row.id === 'r2')?.text).toBe('patched')
  })

  it('keeps its rows and says why when a page fails', async () => {
    let fails = false
    const list = new PagedList<Row>(
      row => row.id,
      async () => {
        if (fails) throw new Error('no')
        return { items: [{ id: 'a', text: '' }], nextCursor: 'a' }
      },
    )
    await list.loadMore()
    fails = true
    await list.loadMore()
    expect(list.state().error).toBeInstanceOf(Error)
    expect(list.state().rows).toHaveLength(1)
  })
})

it('the cache keeps the lists that were used last', () => {
  const cache = new ListCache<Row>(() => server(1).list, 2)
  const a = cache.get('a')
  cache.get('b')
  expect(cache.get('a')).toBe(a)
  cache.get('c')
  expect(cache.get('a')).toBe(a)
})
