import { useSyncExternalStore } from 'react'

/**
 * Discards that wait for the end of their undo window. The request is sent when the window closes: until then nothing
 * has happened, so undo always works, and closing the tab keeps the dead letters.
 */
export type Discard = {
  id: number
  /** The fingerprint of a group; null if `runIds` selects the runs. */
  fingerprint: string | null
  runIds: readonly string[]
  count: number
  endsAt: number
  state: 'waiting' | 'sending'
}

export const UNDO_WINDOW_MS = 8000

type Timer = { set: (run: () => void, ms: number) => unknown; clear: (timer: unknown) => void; now: () => number }

const REAL: Timer = {
  set: (run, ms) => setTimeout(run, ms),
  clear: timer => clearTimeout(timer as ReturnType<typeof setTimeout>),
  now: () => Date.now(),
}

export class DiscardQueue {
  private list: readonly Discard[] = []
  private lastId = 0
  private readonly timers = new Map<number, unknown>()
  private readonly listeners = new Set<() => void>()

  constructor(private readonly timer: Timer = REAL) {}

  /**
   * Calls `send` after the undo window. `send` reports its own errors; the discard is removed from the queue in any
   * case.
   */
  add(what: Pick<Discard, 'fingerprint' | 'runIds' | 'count'>, send: () => Promise<unknown>): number {
    const id = ++this.lastId
    this.change([...this.list, { ...what, id, endsAt: this.timer.now() + UNDO_WINDOW_MS, state: 'waiting' }])
    this.timers.set(
      id,
      this.timer.set(() => void this.send(id, send), UNDO_WINDOW_MS),
    )
    return id
  }

  private async send(id: number, send: () => Promise<unknown>): Promise<void> {
    this.timers.delete(id)
    this.change(this.list.map(item => (item.id === id ? { ...item, state: 'sending' } : item)))
    try {
      await send()
    } finally {
      this.change(this.list.filter(item => item.id !== id))
    }
  }

  /** Cancels a discard. Returns false if its window has closed. */
  undo(id: number): boolean {
    if (!this.timers.has(id)) return false
    this.timer.clear(this.timers.get(id))
    this.timers.delete(id)
    this.change(this.list.filter(item => item.id !== id))
    return true
  }

  current = (): readonly Discard[] => this.list

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  private change(next: readonly Discard[]): void {
    this.list = next
    for (const listener of this.listeners) listener()
  }
}

/** The queue of the browser tab. A window continues while the user opens another page. */
export const discards = new DiscardQueue()

export function useDiscards(): readonly Discard[] {
  return useSyncExternalStore(discards.subscribe, discards.current)
}
