import { useEffect, useRef, useState, useSyncExternalStore } from 'react'
import { firstDataShown } from '@/api/first'
import { ApiError, problemOf } from '@/api/problem'
import { apiUrl, queryString } from '@/lib/url'
import { LogBuffer, type LogChunk } from './buffer'
import { NdjsonReader } from './ndjson'
import { takeSlot } from './slots'

/** Fetches the output of a run, and then new output until the run has ended. */

/** The state of the log: first fetch, live connection, fetches every few seconds, failed, or complete. */
export type LogState = 'reading' | 'live' | 'polling' | 'broken' | 'ended'

const POLL_PERIOD_MS = 3000
const RETRY_DELAYS_MS = [1000, 2000, 5000, 10_000]
/** Maximum time in which the log is parsed before the page handles input. */
const SLICE_MS = 12
const REDRAW_MS = 80
const HIDDEN_REDRAW_MS = 1000

export class LogSource {
  readonly log = new LogBuffer()
  state: LogState = 'reading'
  error: unknown = null
  /** Increases with each change, so that React renders again. */
  version = 0
  #listeners = new Set<() => void>()
  #stop = new AbortController()
  #isLive: () => boolean
  #path: string

  constructor(runId: string, isLive: () => boolean) {
    this.#path = `/v1/runs/${encodeURIComponent(runId)}/logs`
    this.#isLive = isLive
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  readonly snapshot = (): number => this.version

  stop(): void {
    this.#stop.abort()
  }

  async start(): Promise<void> {
    await firstDataShown.shown
    let failures = 0
    while (!this.#stop.signal.aborted) {
      // A request that began after the end of the run returns the complete log.
      const wasLive = this.#isLive()
      try {
        await this.#round(wasLive)
        failures = 0
        this.error = null
        if (!wasLive) return this.#become('ended')
        await this.#rest(this.state === 'polling' ? POLL_PERIOD_MS : 300)
      } catch (error) {
        if (this.#stop.signal.aborted) return
        this.error = error
        this.#become('broken')
        if (error instanceof ApiError && error.status === 404) return
        await this.#rest(RETRY_DELAYS_MS[Math.min(failures++, RETRY_DELAYS_MS.length - 1)] ?? 10_000)
      }
    }
  }

  /** Sends one request and reads its answer to the end. A live request needs a slot. */
  async #round(live: boolean): Promise<void> {
    const slot = live ? await takeSlot() : null
    try {
      if (this.#stop.signal.aborted) return
      this.#become(live ? (slot === null ? 'polling' : 'live') : 'reading')
      await this.#read(slot !== null)
    } finally {
      slot?.release()
    }
  }

  async #read(follow: boolean): Promise<void> {
    const query = queryString({ cursor: this.log.cursor, follow: follow ? 'true' : undefined })
    const response = await fetch(apiUrl(this.#path + query), {
      headers: { Accept: 'application/x-ndjson' },
      credentials: 'same-origin',
      cache: 'no-store',
      signal: this.#stop.signal,
    })
    if (!response.ok) {
      const body: unknown = await response.json().catch(() => null)
      throw new ApiError(response.status, problemOf(response.status, body))
    }
    const reader = response.body?.getReader()
    if (reader === undefined) return
    const documents = new NdjsonReader<LogChunk>()
    let sliceEnd = performance.now() + SLICE_MS
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      for (const chunk of documents.push(value)) {
        if (this.log.append(chunk)) continue
        this.log.clear()
        await reader.cancel()
        return this.#changed()
      }
      this.#changed()
      if (performance.now() < sliceEnd) continue
      await new Promise(resolve => setTimeout(resolve))
      sliceEnd = performance.now() + SLICE_MS
    }
  }

  #become(state: LogState): void {
    if (this.state === state) return
    this.state = state
    this.#changed()
  }

  #timer = 0

  /** Notifies the view, at most a few times per second while output arrives fast, because parsing has priority. */
  #changed(): void {
    if (this.#timer !== 0) return
    this.#timer = window.setTimeout(
      () => {
        this.#timer = 0
        this.version += 1
        for (const listener of this.#listeners) listener()
      },
      document.hidden ? HIDDEN_REDRAW_MS : REDRAW_MS,
    )
  }

  #rest(ms: number): Promise<void> {
    return new Promise(resolve => setTimeout(resolve, ms))
  }
}

/** Provides the log of a run while the component is mounted. With `isLive`, the run may write more output. */
export function useLog(runId: string, isLive: boolean): LogSource {
  const live = useRef(isLive)
  useEffect(() => {
    live.current = isLive
  })
  const [source, setSource] = useState(() => new LogSource(runId, () => live.current))
  useEffect(() => {
    const next = new LogSource(runId, () => live.current)
    setSource(next)
    void next.start()
    return () => next.stop()
  }, [runId])
  useSyncExternalStore(source.subscribe, source.snapshot)
  return source
}
