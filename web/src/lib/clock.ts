import { useSyncExternalStore } from 'react'

/**
 * The server's time minus the browser's, in milliseconds. Countdowns use the server's time, because runs are due by the
 * clock of the server.
 */
let offset = 0
let known = false

/**
 * Learns the server's time from an answer. `sentAt` and `receivedAt` are the browser's times of the request and the
 * answer.
 */
export function learnServerTime(serverNow: number, sentAt: number, receivedAt: number): void {
  const delay = receivedAt - sentAt
  const next = serverNow + delay / 2 - receivedAt
  // A difference smaller than the delay of the request (at least 250 ms) is ignored, because the delay alone may cause
  // it.
  if (!known || Math.abs(next - offset) > Math.max(250, delay))
    offset = Math.abs(next) < Math.max(250, delay) ? 0 : next
  known = true
}

export function serverNow(): number {
  return Date.now() + offset
}

/** The listeners of the one timer of the page. The timer stops while there are none, or while the tab is hidden. */
const listeners = new Set<() => void>()
let second = Math.floor(Date.now() / 1000) * 1000
let timer: ReturnType<typeof setTimeout> | undefined

function tick(): void {
  const now = serverNow()
  second = Math.floor(now / 1000) * 1000
  timer = document.hidden ? undefined : setTimeout(tick, 1000 - (now % 1000) + 5)
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (timer === undefined) tick()
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) {
      clearTimeout(timer)
      timer = undefined
    }
  }
}

if (typeof document !== 'undefined') {
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && timer === undefined && listeners.size > 0) tick()
  })
}

/** Returns the current second of the server's time. The component renders again each second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => second)
}
