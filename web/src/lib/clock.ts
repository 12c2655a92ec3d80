import { useSyncExternalStore } from 'react'

/**
 * The server's time, as this browser knows it. Fires are due by the server's clock: a countdown that used the clock of
 * a laptop would be wrong by what that clock is wrong.
 */
let offset = 0
let known = false

/** Takes over the server's time from an answer. `sentAt` and `receivedAt` are local times around the request. */
export function learnServerTime(serverNow: number, sentAt: number, receivedAt: number): void {
  const delay = receivedAt - sentAt
  const next = serverNow + delay / 2 - receivedAt
  // A difference below the delay says nothing: the local clock may well be right.
  if (!known || Math.abs(next - offset) > Math.max(250, delay))
    offset = Math.abs(next) < Math.max(250, delay) ? 0 : next
  known = true
}

export function serverNow(): number {
  return Date.now() + offset
}

/** One timer for the whole page, however many texts count. It rests while nothing listens or the tab is hidden. */
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

/** The current second of the server's time. The component renders again each second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => second)
}
