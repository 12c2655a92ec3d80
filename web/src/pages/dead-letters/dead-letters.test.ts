import { expect, test, vi } from 'vitest'
import { type Progress, runBulk } from './bulk'
import { letterCommands } from './commands'
import { DiscardQueue, UNDO_WINDOW_MS } from './discards'
import { editableOf, editOf, readEdit } from './edit'
import { filterOf, lettersSearch, selectionOf } from './search'

test('the filter of the address is the filter of the API', () => {
  const search = lettersSearch({ tag: 'etl', group: 'abc', other: 'x', jobId: '' })
  expect(filterOf(search)).toEqual({ tag: 'etl' })
  expect(selectionOf({ tag: 'etl' }, 'abc')).toEqual({ tag: 'etl', fingerprint: 'abc' })
  expect(selectionOf({})).toEqual({ all: true })
})

test('an edit has only what changed', () => {
  const before = editableOf({ name: 'x', parameters: { region: 'eu', n: 1 }, task: { kind: 'shell' }, timeout: null })
  expect(before).not.toHaveProperty('name')
  expect(editOf(before, before)).toEqual({ edit: {}, changed: [] })
  expect(editOf(before, { ...before, parameters: { region: 'us' }, timeout: '1h' })).toEqual({
    edit: { parameters: { region: 'us', n: null }, timeout: '1h' },
    changed: ['parameters.region', 'parameters.n', 'timeout'],
  })
  expect(editOf({ retry: { maxRetries: 3, base: '5s' } }, { retry: { maxRetries: 5, base: '5s' } })).toEqual({
    edit: { retry: { maxRetries: 5 } },
    changed: ['retry.maxRetries'],
  })
  expect(editOf({ timeout: '1h' }, {})).toEqual({ edit: { timeout: null }, changed: ['timeout'] })
})

test('an edit that cannot be sent says why', () => {
  expect(readEdit({}, '{')).toHaveProperty('error')
  expect(readEdit({}, '[]')).toHaveProperty('error')
  expect(readEdit({}, '{"name": "x"}')).toHaveProperty('error')
})

function fakeTimer() {
  const waiting = new Map<number, () => void>()
  let id = 0
  return {
    set: (run: () => void) => {
      waiting.set(++id, run)
      return id
    },
    clear: (timer: unknown) => void waiting.delete(timer as number),
    now: () => 1000,
    fire: () => {
      for (const [key, run] of [...waiting]) {
        waiting.delete(key)
        run()
      }
    },
  }
}

test('a discard is sent when its window closes, and not after undo', async () => {
  const timer = fakeTimer()
  const queue = new DiscardQueue(timer)
  const sent: string[] = []
  const first = queue.add({ fingerprint: 'a', runIds: [], count: 2 }, async () => sent.push('a'))
  queue.add({ fingerprint: null, runIds: ['r_1'], count: 1 }, async () => sent.push('b'))
  expect(queue.current().map(item => [item.state, item.endsAt])).toEqual([
    ['waiting', 1000 + UNDO_WINDOW_MS],
    ['waiting', 1000 + UNDO_WINDOW_MS],
  ])
  expect(queue.undo(first)).toBe(true)
  timer.fire()
  await Promise.resolve()
  await Promise.resolve()
  expect(sent).toEqual(['b'])
  expect(queue.current()).toEqual([])
  expect(queue.undo(first)).toBe(false)
})

test('an action over many goes in steps and can be stopped', async () => {
  const pages = [
    { ids: ['1', '2', '3'], cursor: 'x' },
    { ids: ['4', '5'], cursor: null },
  ]
  const acted: string[][] = []
  const source = () => {
    let page = 0
    return {
      nextIds: async () => pages[page++] ?? { ids: [], cursor: null },
      act: async (ids: readonly string[]) => {
        acted.push([...ids])
        return { matched: ids.length, changed: ids.length, failed: 0, error: null }
      },
    }
  }
  const seen: Progress[] = []
  const end = await runBulk(
    source(),
    2,
    progress => seen.push(progress),
    () => false,
  )
  expect(acted).toEqual([['1', '2'], ['3', '4'], ['5']])
  expect(seen.map(progress => progress.done)).toEqual([0, 2, 4, 5])
  expect(end).toEqual({ total: 5, done: 5, changed: 5, failed: 0, firstError: null })
  acted.length = 0
  await runBulk(
    source(),
    2,
    () => {},
    () => acted.length > 0,
  )
  expect(acted).toEqual([['1', '2']])
})

test('the group without a fingerprint is selected by its word, never by everything', () => {
  vi.stubGlobal('document', { baseURI: 'http://timeball/' })
  expect(selectionOf({}, 'none')).toEqual({ fingerprint: 'none' })
  const { curl, cli, python } = letterCommands('retry', { filter: {}, fingerprint: 'none' })
  expect(curl).toContain('{"filter":{"fingerprint":"none"}}')
  expect(cli).toBe('timeball dead retry --group none')
  expect(python).toContain('retry_dead(fingerprint="none")')
})
