import { SseParser } from './sse'
import type { Batch, StreamState, TimeballEvent } from './types'

/** The period for which events are collected into one batch: 500 events per second become ten messages. */
const BATCH_PERIOD_MS = 100
/** If one period has more events than this, they are discarded, and pages fetch their data again. */
const MAX_BATCH_EVENTS = 1000
/** A connection without any data for this long is closed. The server sends at least a comment every 15 s. */
const SILENCE_TIMEOUT_MS = 40_000
const POLL_PERIOD_MS = 5000
const RETRY_DELAY_MIN_MS = 500
const RETRY_DELAY_MAX_MS = 15_000

type Listener = { onBatch: (batch: Batch) => void; onState: (state: StreamState) => void }

/** The connection of this browser for events. It reconnects until `stop` is called. */
export class EventConnection {
  state: StreamState = 'connecting'
  #lastId: string | null = null
  #events: TimeballEvent[] = []
  #reset = false
  #flush: ReturnType<typeof setTimeout> | undefined
  #abort: AbortController | null = null
  #wake: () => void = () => {}
  #failures = 0

  constructor(
    readonly url: string,
    readonly listener: Listener,
  ) {}

  start(): void {
    if (this.#abort !== null) return
    this.#abort = new AbortController()
    void this.#run(this.#abort.signal)
  }

  stop(): void {
    this.#abort?.abort()
    this.#abort = null
    this.#wake()
    clearTimeout(this.#flush)
    this.#flush = undefined
    this.#events = []
  }

  /** Connects at once, without the rest of the delay: the user signed in, or the machine is online again. */
  retryNow(): void {
    this.#failures = 0
    if (this.#abort === null) this.start()
    else this.#wake()
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const wait = await this.#connect(signal)
      if (signal.aborted) return
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, wait)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }

  /** Opens one connection and reads it until it ends. Returns the delay in milliseconds before the next one. */
  async #connect(signal: AbortSignal): Promise<number> {
    const attempt = new AbortController()
    const cancel = () => attempt.abort()
    signal.addEventListener('abort', cancel)
    try {
      const response = await fetch(this.url, {
        credentials: 'same-origin',
        cache: 'no-store',
        signal: attempt.signal,
        headers: {
          Accept: 'text/event-stream',
          ...(this.#lastId === null ? {} : { 'Last-Event-ID': this.#lastId }),
        },
      })
      if (response.status === 401 || response.status === 403) return this.#ended('denied', 60_000)
      const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream') ?? false
      if (response.status === 404 || (response.ok && !isStream)) {
        this.#missed()
        return this.#ended('polling', POLL_PERIOD_MS)
      }
      if (!response.ok || response.body === null) return this.#failed()
      if (this.state !== 'connecting' && this.#lastId === null) this.#missed()
      this.#failures = 0
      this.#set('live')
      await this.#read(response.body, attempt)
    } catch {
      return this.#failed()
    } finally {
      signal.removeEventListener('abort', cancel)
      attempt.abort()
    }
    return this.#failed()
  }

  async #read(body: ReadableStream<Uint8Array>, attempt: AbortController): Promise<void> {
    const parser = new SseParser()
    const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader()
    let silence = setTimeout(() => attempt.abort(), SILENCE_TIMEOUT_MS)
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        clearTimeout(silence)
        silence = setTimeout(() => attempt.abort(), SILENCE_TIMEOUT_MS)
        for (const frame of parser.push(value)) this.#take(frame.event, frame.data)
        if (parser.lastId !== null && parser.lastId !== '') this.#lastId = parser.lastId
      }
    } finally {
      clearTimeout(silence)
    }
  }

  #take(event: string, data: string): void {
    if (event === 'reset') {
      this.#missed()
      return
    }
    if (this.#events.length >= MAX_BATCH_EVENTS) this.#missed()
    else {
      try {
        this.#events.push(JSON.parse(data) as TimeballEvent)
      } catch {
        this.#missed()
      }
    }
    this.#schedule()
  }

  #missed(): void {
    this.#reset = true
    this.#events = []
    this.#schedule()
  }

  #schedule(): void {
    if (this.#abort === null) return
    this.#flush ??= setTimeout(() => {
      this.#flush = undefined
      const batch = { events: this.#events, reset: this.#reset }
      this.#events = []
      this.#reset = false
      this.listener.onBatch(batch)
    }, BATCH_PERIOD_MS)
  }

  #set(state: StreamState): void {
    if (this.state === state) return
    this.state = state
    this.listener.onState(state)
  }

  #ended(state: StreamState, delay: number): number {
    this.#set(state)
    return delay
  }

  #failed(): number {
    const delay = Math.min(RETRY_DELAY_MAX_MS, RETRY_DELAY_MIN_MS * 2 ** this.#failures)
    this.#failures++
    // A single interruption is not shown, because the next try usually succeeds.
    if (this.#failures > 1 || this.state !== 'live') this.#set('waiting')
    return delay * (0.75 + Math.random() * 0.5)
  }
}
