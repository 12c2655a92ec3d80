import type { QueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useSyncExternalStore } from 'react'
import { firstDataShown } from '@/api/first'
import { apiUrl } from '@/lib/url'
import { Coalescer } from './coalesce'
import { LIVE_WORDS, refreshPeriod, type Touch, touchedBy } from './touched'
import { openTransport, type Transport } from './transport'
import type { Batch, StreamState } from './types'

/** Receives the events of this tab, refreshes the query cache, and passes the events to the pages that listen. */

let state: StreamState = 'connecting'
const stateListeners = new Set<() => void>()
const batchListeners = new Set<(batch: Batch) => void>()
let transport: Transport | null = null

export function startEvents(client: QueryClient): void {
  const coalescer = new Coalescer<Touch>(refreshPeriod, touches => {
    // One pass over the cache invalidates all answers, however many items were touched.
    const wanted = new Set(touches.map(touch => touch.join('\n')))
    void client.invalidateQueries({
      predicate: ({ queryKey }) => {
        const word = queryKey[0]
        if (typeof word !== 'string') return false
        return wanted.has(word) || (typeof queryKey[1] === 'string' && wanted.has(`${word}\n${queryKey[1]}`))
      },
    })
  })
  const visibility = () => (document.hidden ? coalescer.pause() : coalescer.resume())
  document.addEventListener('visibilitychange', visibility)
  visibility()
  window.addEventListener('online', () => transport?.retry())

  const onBatch = (batch: Batch) => {
    const touches = new Map<string, Touch>()
    if (batch.reset) for (const word of LIVE_WORDS) touches.set(word, [word])
    for (const event of batch.events) for (const touch of touchedBy(event)) touches.set(touch.join('\n'), touch)
    coalescer.touch(touches.values())
    for (const listener of batchListeners) listener(batch)
  }

  // The script of the worker is one more request, so it is loaded after the first data of the page is shown.
  void firstDataShown.shown.then(() => {
    transport = openTransport(apiUrl('/v1/events'), message => {
      if (message.type === 'batch') onBatch(message.batch)
      else {
        state = message.state
        for (const listener of stateListeners) listener()
      }
    })
  })
}

/** Reconnects after a sign-in or a sign-out, because the connection was opened with the old credential. */
export function restartEvents(): void {
  transport?.restart()
}

function subscribeState(listener: () => void): () => void {
  stateListeners.add(listener)
  return () => stateListeners.delete(listener)
}

export function useStreamState(): StreamState {
  return useSyncExternalStore(subscribeState, () => state)
}

/** Calls `onBatch` with each batch of events while the component is mounted, at most ten times per second. */
export function useEvents(onBatch: (batch: Batch) => void): void {
  const latest = useRef(onBatch)
  useEffect(() => {
    latest.current = onBatch
  })
  useEffect(() => {
    const listener = (batch: Batch) => latest.current(batch)
    batchListeners.add(listener)
    return () => {
      batchListeners.delete(listener)
    }
  }, [])
}
