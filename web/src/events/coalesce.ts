/**
 * Limits how often each item is refreshed. The first touch of an item refreshes it at once. Later touches within its
 * period are combined into one refresh at the end of the period, so each touch is followed by a refresh.
 */

type Timer = { set: (run: () => void, ms: number) => unknown; now: () => number }

const SYSTEM: Timer = { set: (run, ms) => setTimeout(run, ms), now: () => Date.now() }

export class Coalescer<T extends readonly string[]> {
  readonly #last = new Map<string, number>()
  readonly #pending = new Map<string, T>()
  #paused = false

  constructor(
    readonly period: (item: T) => number,
    readonly refresh: (items: T[]) => void,
    readonly timer: Timer = SYSTEM,
  ) {}

  touch(items: Iterable<T>): void {
    const due: T[] = []
    const now = this.timer.now()
    for (const item of items) {
      const key = item.join('\n')
      if (this.#pending.has(key)) continue
      const wait = (this.#last.get(key) ?? Number.NEGATIVE_INFINITY) + this.period(item) - now
      if (wait <= 0 && !this.#paused) {
        this.#last.set(key, now)
        due.push(item)
      } else {
        this.#pending.set(key, item)
        if (!this.#paused) this.#later(key, wait)
      }
    }
    if (due.length > 0) this.refresh(due)
    this.#forget(now)
  }

  /** Stops refreshes while the tab is hidden. Items that are touched in this time are refreshed by `resume`. */
  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    const items = [...this.#pending.values()]
    this.#pending.clear()
    this.touch(items)
  }

  #later(key: string, ms: number): void {
    this.timer.set(() => {
      const item = this.#pending.get(key)
      if (item === undefined || this.#paused) return
      this.#pending.delete(key)
      this.#last.set(key, this.timer.now())
      this.refresh([item])
    }, ms)
  }

  /** Removes old entries, because the keys of single runs would otherwise use more memory with each run. */
  #forget(now: number): void {
    if (this.#last.size < 2000) return
    for (const [key, at] of this.#last) if (now - at > 10_000) this.#last.delete(key)
  }
}
