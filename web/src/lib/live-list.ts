import { useCallback, useEffect, useRef } from 'react'
import { useEvents } from '@/events/hub'
import type { Batch } from '@/events/types'
import { type ListState, type PagedList, useListState } from './paged-list'

const REFRESH_DISTANCE_MS = 2000

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
  const wanted = useRef(false)

  const refresh = useCallback(() => {
    wanted.current = true
    if (document.hidden || timer.current !== undefined) return
    const wait = Math.max(0, last.current + REFRESH_DISTANCE_MS - Date.now())
    timer.current = setTimeout(() => {
      timer.current = undefined
      last.current = Date.now()
      wanted.current = false
      void list.refresh()
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
