import { useSyncExternalStore } from 'react'

/**
 * A long list that is fetched in pages and updated by events. It keeps the fetched pages, so that a user who returns
 * from a detail page finds the list at the same position.
 */

export type Fetched<T> = { items: T[]; nextCursor: string | null }
export type FetchPage<T> = (cursor: string | null, signal: AbortSignal) => Promise<Fetched<T>>

export type ListState<T> = {
  /** The rows, newest first. The array is changed in place; `version` increases with each change. */
  rows: readonly T[]
  version: number
  /** True when the first page has been fetched. */
  ready: boolean
  loading: boolean
  error: unknown
  /** True when all pages have been fetched. */
  complete: boolean
  /** The number of new rows that are not shown, because the user has scrolled down. */
  unseen: number
}

export class PagedList<T> {
  readonly #rows: T[] = []
  /**
   * The position of each row by id, relative to the first row of the first page, so that rows inserted before it change
   * no entry.
   */
  readonly #index = new Map<string, number>()
  #before = 0
  /** The cursor of each fetched page, and the number of rows before the page. */
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
  /** True if the list is scrolled to the top. New rows are then shown at once. */
  atTop = true
  /** The indexes of the first and the last row in view. */
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

  /** Fetches the next page, unless a page is being fetched or none is left. */
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

  /** Fetches the list again from the first page. The old rows are shown until that page has arrived. */
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

  /** Fetches the new rows at the top and the pages in view. */
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
      // After an error the rows stay unchanged. The next event causes another fetch.
    } finally {
      this.#refreshing = false
    }
  }

  /**
   * Changes the rows with these ids that the list contains. `change` returns a new row, or the same one if nothing
   * changed. Returns the number of changed rows.
   */
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

  /** Inserts the new rows at the top. */
  readonly showUnseen = (): void => {
    const head = this.#head
    this.#head = null
    if (head !== null) this.#replaceHead(head)
    this.#change({ unseen: 0 })
  }

  /** Aborts the requests of this list. */
  stop(): void {
    this.#abort.abort()
    this.#abort = new AbortController()
    if (this.#state.loading) this.#change({ loading: false })
  }

  /**
   * Fetches pages until one has rows. The server may return an empty page of a search although later pages have
   * matches.
   */
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

  /**
   * True if there are rows between the new rows and the old ones that were not fetched. The list must then be fetched
   * again to show the new rows.
   */
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
   * Replaces the rows that a newly fetched page covers, up to the last of its rows that the list contains. Old rows in
   * that range that the page does not contain are removed, because they no longer match the filter.
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

/** The lists that were shown last, by filter. A page that is opened again shows its rows at once. */
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
