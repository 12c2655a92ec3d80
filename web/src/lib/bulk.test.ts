import { describe, expect, it } from 'vitest'
import { actInPages, BULK_START, type BulkPage, type BulkProgress, plusPage } from './bulk'

const page = (matched: number, nextCursor: string | null, refused: string[] = []): BulkPage => ({
  matched,
  changed: matched - refused.length,
  skipped: refused.length,
  failed: refused.map(jobId => ({ jobId, error: { detail: 'no' } })),
  nextCursor,
})

describe('an action over a filter', () => {
  it('continues after each cursor until there is none, and sums up', async () => {
    const pages = [page(500, 'j_2'), page(500, 'j_1', ['j_9']), page(3, null)]
    const cursors: (string | null)[] = []
    const seen: number[] = []
    const end = await actInPages(
      BULK_START,
      cursor => {
        cursors.push(cursor)
        return Promise.resolve(pages.shift() as BulkPage)
      },
      progress => seen.push(progress.sum.matched),
    )
    expect(cursors).toEqual([null, 'j_2', 'j_1'])
    expect(seen).toEqual([500, 1000, 1003])
    expect(end.sum).toEqual({ matched: 1003, changed: 1002, skipped: 1, failed: [{ id: 'j_9', detail: 'no' }] })
  })

  it('is one request where the API has no cursor', async () => {
    const { nextCursor: _, ...whole } = page(7, null)
    const end = await actInPages(
      BULK_START,
      () => Promise.resolve(whole),
      () => {},
    )
    expect(end).toMatchObject({ ended: true, sum: { changed: 7 } })
  })

  it('continues where it was after a request that failed, and counts nothing twice', async () => {
    let last: BulkProgress = BULK_START
    const note = (progress: BulkProgress) => {
      last = progress
    }
    const answers: (BulkPage | Error)[] = [page(2, 'j_5'), new Error('lost'), page(1, null)]
    const send = () => {
      const answer = answers.shift()
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer as BulkPage)
    }
    await expect(actInPages(BULK_START, send, note)).rejects.toThrow('lost')
    expect(last.cursor).toBe('j_5')
    const end = await actInPages(last, send, note)
    expect(end.sum.matched).toBe(3)
  })

  it('stops between two requests', async () => {
    let stopped = false
    const end = await actInPages(
      BULK_START,
      () => Promise.resolve(page(2, 'j_5')),
      () => {
        stopped = true
      },
      () => stopped,
    )
    expect(end).toMatchObject({ ended: false, cursor: 'j_5', sum: { matched: 2 } })
  })

  it('does not repeat the id of a refusal', () => {
    const refused = { ...page(1, null), failed: [{ jobId: 'j_1', error: { detail: 'job j_1 was cancelled' } }] }
    expect(plusPage(BULK_START.sum, refused).failed).toEqual([{ id: 'j_1', detail: 'was cancelled' }])
  })

  it('lists a bounded number of refusals', () => {
    const many = Array.from({ length: 150 }, (_, at) => `j_${at}`)
    let sum = plusPage(BULK_START.sum, page(150, 'x', many))
    sum = plusPage(sum, page(150, null, many))
    expect(sum.skipped).toBe(300)
    expect(sum.failed).toHaveLength(200)
  })
})
