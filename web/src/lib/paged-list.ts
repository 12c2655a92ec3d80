import { useSyncExternalStore } from 'react'

/**
 * A long list that arrives in pages and stays live. It keeps the pages that were read, so that the way back from a
 * detail page finds list and position as they were.
 */

export type Fetched<T> = { items: T[]; nextCursor: string | null }
export type FetchPage<T> = (cursor: string | null, signal: AbortSignal) => Promise<Fetched<T>>

export type ListState<T> = {
  /** The rows, newest first. The array is changed in place; `version` grows with each change. */
  rows: readonly T[]
  version: number
  /** The first page has been read. */
  ready: boolean
  loading: boolean
  error: unknown
  /** All pages have been read. */
  complete: boolean
  /** New rows that are not shown, because the reader has scrolled down. */
  unseen: number
}

export class PagedList<T> {
  readonly #rows: T[] = []
  /** Where each row is, as a distance to the first page's first row: rows that come before change no entry. */
  readonly #index = new Map<string, number>()
  #before = 0
  /** The cursor of each page, and the number of rows before it. */
  readonly #pages: { cursor: string | null; start: number }[] = []
  readonly #listeners = new Set<() => void>()
  #head: T[] | null = null
  #cursor: string | null = null
  #abort = new AbortController()
  #refreshing = false
  #state: ListState<T> = {
    rows: this.#rows,
    version: 0,
    ready: false,
    loading: false,
    error: null,
    complete: false,
    unseen: 0,
  }
  /** Where the reader is. At the top, new rows appear at once. */
  atTop = true
  /** The first and last row in view. */
  range: readonly [number, number] = [0, 0]
  scrollTop = 0

  constructor(
    readonly idOf: (row: T) => string,
    readonly fetchPage: FetchPage<T>,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }
  readonly state = (): ListState<T> => this.#state

  has(id: string): boolean {
    return this.#index.has(id)
  }

  /** Reads the next page, unless one is on its way. */
  readonly loadMore = async (): Promise<void> => {
    if (this.#state.loading || this.#state.complete) return
    const cursor = this.#cursor
    const { signal } = this.#abort
    this.#change({ loading: true, error: null })
    try {
      const page = await this.#next(cursor, signal)
      if (signal.aborted) return
      this.#pages.push({ cursor, start: this.#rows.length })
      this.#append(page.items)
      this.#cursor = page.nextCursor
      this.#change({ loading: false, ready: true, complete: page.nextCursor === null })
    } catch (error) {
      if (!signal.aborted) this.#change({ loading: false, error })
    }
  }

  /** Begins again, and keeps the old rows until the first page is there. */
  readonly restart = async (): Promise<void> => {
    this.#abort.abort()
    this.#abort = new AbortController()
    const { signal } = this.#abort
    this.#change({ loading: true, error: null })
    try {
      const page = await this.#next(null, signal)
      if (signal.aborted) return
      this.#replaceAll(page)
    } catch (error) {
      if (!signal.aborted) this.#change({ loading: false, error })
    }
  }

  /** Reads what is new at the top, and the pages in view again. */
  readonly refresh = async (): Promise<void> => {
    if (this.#refreshing || !this.#state.ready) return
    this.#refreshing = true
    const { signal } = this.#abort
    try {
      for (const { cursor } of this.#visiblePages()) {
        const page = await this.fetchPage(cursor, signal)
        if (signal.aborted) return
        if (cursor === null) this.#mergeHead(page)
        else this.#replaceKnown(page.items)
      }
    } catch {
      // The rows stay as they are; the next event asks again.
    } finally {
      this.#refreshing = false
    }
  }

  /** Changes rows that are known. `change` returns the new row, or the same one. Returns how many are different. */
  patch(ids: Iterable<string>, change: (row: T, id: string) => T): number {
    let changed = 0
    for (const id of ids) {
      const at = this.#at(id)
      const row = at === undefined ? undefined : this.#rows[at]
      if (at === undefined || row === undefined) continue
      const next = change(row, id)
      if (next === row) continue
      this.#rows[at] = next
      changed++
    }
    if (changed > 0) this.#change({})
    return changed
  }

  /** Shows the new rows. */
  readonly showUnseen = (): void => {
    const head = this.#head
    this.#head = null
    if (head !== null) this.#replaceHead(head)
    this.#change({ unseen: 0 })
  }

  /** Ends what is on its way. */
  stop(): void {
    this.#abort.abort()
    this.#abort = new AbortController()
    if (this.#state.loading) this.#change({ loading: false })
  }

  /** A search may find nothing on a page and still have pages after it: reads on until there are rows. */
  async #next(cursor: string | null, signal: AbortSignal): Promise<Fetched<T>> {
    let page = await this.fetchPage(cursor, signal)
    while (page.items.length === 0 && page.nextCursor !== null && !signal.aborted) {
      page = await this.fetchPage(page.nextCursor, signal)
    }
    return page
  }

  #visiblePages(): { cursor: string | null }[] {
    const [first, last] = this.range
    const inView = this.#pages.filter(
      (page, at) => page.start <= last && (this.#pages[at + 1]?.start ?? Number.POSITIVE_INFINITY) > first,
    )
    const head = { cursor: null, start: 0 }
    return inView.some(page => page.cursor === null) ? inView : [head, ...inView]
  }

  #mergeHead(page: Fetched<T>): void {
    const fresh = page.items.filter(row => !this.#index.has(this.idOf(row))).length
    const joins = fresh < page.items.length || this.#rows.length === 0 || page.nextCursor === null
    if (this.atTop) {
      if (joins) this.#replaceHead(page.items)
      else this.#replaceAll(page) // more has come than one page: between it and the old rows some are missing
      this.#change({ unseen: 0 })
      return
    }
    this.#replaceKnown(page.items)
    if (fresh === 0) return
    this.#head = joins ? page.items : null
    this.#change({ unseen: joins ? fresh : Math.max(fresh, this.#state.unseen) })
  }

  /** True if the new rows no longer join the old ones: showing them means to begin again. */
  get hasGap(): boolean {
    return this.#state.unseen > 0 && this.#head === null
  }

  #replaceAll(page: Fetched<T>): void {
    this.#rows.length = 0
    this.#index.clear()
    this.#before = 0
    this.#pages.length = 0
    this.#pages.push({ cursor: null, start: 0 })
    this.#append(page.items)
    this.#cursor = page.nextCursor
    this.#head = null
    this.#change({ loading: false, ready: true, error: null, complete: page.nextCursor === null, unseen: 0 })
  }

  #replaceKnown(items: readonly T[]): void {
    let changed = false
    for (const row of items) {
      const at = this.#at(this.idOf(row))
      if (at === undefined) continue
      this.#rows[at] = row
      changed = true
    }
    if (changed) this.#change({})
  }

  #append(items: readonly T[]): void {
    for (const row of items) {
      const id = this.idOf(row)
      const at = this.#at(id)
      if (at !== undefined) this.#rows[at] = row
      else {
        this.#index.set(id, this.#rows.length - this.#before)
        this.#rows.push(row)
      }
    }
  }

  /**
   * Puts a page that was read again in the place of the rows it covers: up to the last of them that it still has. Rows
   * that it has no more do not match the filter any longer.
   */
  #replaceHead(items: readonly T[]): void {
    let covered = 0
    for (const row of items) covered = Math.max(covered, (this.#at(this.idOf(row)) ?? -1) + 1)
    for (const row of this.#rows.slice(0, covered)) this.#index.delete(this.idOf(row))
    this.#rows.splice(0, covered, ...items)
    const added = items.length - covered
    this.#before += added
    items.forEach((row, at) => {
      this.#index.set(this.idOf(row), at - this.#before)
    })
    for (const page of this.#pages) if (page.cursor !== null) page.start += added
  }

  #at(id: string): number | undefined {
    const at = this.#index.get(id)
    return at === undefined ? undefined : at + this.#before
  }

  #change(change: Partial<ListState<T>>): void {
    this.#state = { ...this.#state, ...change, rows: this.#rows, version: this.#state.version + 1 }
    for (const listener of this.#listeners) listener()
  }
}

export function useListState<T>(list: PagedList<T>): ListState<T> {
  return useSyncExternalStore(list.subscribe, list.state)
}

/** The lists that were shown last, by their filter: a page that is opened again finds its rows. */
export class ListCache<T> {
  readonly #lists = new Map<string, PagedList<T>>()

  constructor(
    readonly make: (key: string) => PagedList<T>,
    readonly size = 3,
  ) {}

  get(key: string): PagedList<T> {
    const found = this.#lists.get(key) ?? this.make(key)
    this.#lists.delete(key)
    this.#lists.set(key, found)
    for (const old of this.#lists.keys()) {
      if (this.#lists.size <= this.size) break
      this.#lists.delete(old)
    }
    return found
  }

  clear(): void {
    this.#lists.clear()
  }
}
