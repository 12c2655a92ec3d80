import { useCallback, useEffect, useRef } from 'react'
import { useEvents } from '@/events/hub'
import type { Batch } from '@/events/types'
import { type ListState, type PagedList, useListState } from './paged-list'

/** Minimum time between two refreshes. With the delay of events, a new row is shown within a second. */
const REFRESH_DISTANCE_MS = 500
/** The time between two refreshes is at least this multiple of the time that a refresh takes. */
const REST_FACTOR = 10

/**
 * A paged list that events keep current. `onBatch` changes the rows that it can update from the events, and returns
 * true if the list must be fetched again (the rows in view, and new rows at the top).
 */
export function useLiveList<T>(
  list: PagedList<T>,
  onBatch: (batch: Batch, list: PagedList<T>) => boolean,
): ListState<T> {
  const state = useListState(list)
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  const last = useRef(0)
  const distance = useRef(REFRESH_DISTANCE_MS)
  const wanted = useRef(false)

  const refresh = useCallback(() => {
    wanted.current = true
    if (document.hidden || timer.current !== undefined) return
    const wait = Math.max(0, last.current + distance.current - Date.now())
    timer.current = setTimeout(() => {
      timer.current = undefined
      last.current = Date.now()
      wanted.current = false
      void list.refresh().finally(() => {
        distance.current = Math.max(REFRESH_DISTANCE_MS, REST_FACTOR * (Date.now() - last.current))
      })
    }, wait)
  }, [list])

  useEffect(() => {
    if (list.state().ready) void list.refresh()
    else void list.loadMore()
    const visible = () => {
      if (!document.hidden && wanted.current) refresh()
    }
    document.addEventListener('visibilitychange', visible)
    return () => {
      document.removeEventListener('visibilitychange', visible)
      clearTimeout(timer.current)
      timer.current = undefined
      list.stop()
    }
  }, [list, refresh])

  useEvents(batch => {
    if (onBatch(batch, list) || batch.reset) refresh()
  })
  return state
}
