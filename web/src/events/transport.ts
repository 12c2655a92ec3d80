import { EventConnection } from './connection'
import type { FromHolder, ToHolder } from './protocol'

/**
 * Delivers events to a tab. The tabs of a browser share one connection, because HTTP/1.1 allows six per server for all
 * tabs together.
 */
export type Transport = { retry: () => void; restart: () => void; close: () => void }
type Receive = (message: FromHolder) => void

export function openTransport(url: string, receive: Receive): Transport {
  let current: Transport
  const fall = () => {
    current.close()
    current = withoutWorker(url, receive)
  }
  try {
    current = typeof SharedWorker === 'undefined' ? withoutWorker(url, receive) : sharedWorker(url, receive, fall)
  } catch {
    current = withoutWorker(url, receive)
  }
  return { retry: () => current.retry(), restart: () => current.restart(), close: () => current.close() }
}

function sharedWorker(url: string, receive: Receive, fall: () => void): Transport {
  const worker = new SharedWorker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'timeball-events' })
  const post = (message: ToHolder) => worker.port.postMessage(message)
  let broken = false
  worker.onerror = () => {
    if (broken) return
    broken = true
    fall()
  }
  worker.port.onmessage = ({ data }: MessageEvent<FromHolder>) => receive(data)
  const hello = () => post({ type: 'hello', url })
  const bye = () => post({ type: 'bye' })
  const shown = (event: PageTransitionEvent) => {
    if (event.persisted) hello()
  }
  window.addEventListener('pagehide', bye)
  window.addEventListener('pageshow', shown)
  hello()
  return {
    retry: () => post({ type: 'retry' }),
    restart: () => post({ type: 'restart' }),
    close: () => {
      window.removeEventListener('pagehide', bye)
      window.removeEventListener('pageshow', shown)
      bye()
      worker.port.close()
    },
  }
}

function withoutWorker(url: string, receive: Receive): Transport {
  if ('locks' in navigator && typeof BroadcastChannel !== 'undefined') return leader(url, receive)
  return direct(url, receive)
}

/**
 * The tab that holds a browser lock opens the connection, and sends the events to the other tabs. When it closes,
 * another tab gets the lock.
 */
function leader(url: string, receive: Receive): Transport {
  const channel = new BroadcastChannel('timeball-events')
  const abort = new AbortController()
  let held: Transport | null = null
  const isMessage = (data: FromHolder | ToHolder): data is FromHolder => data.type === 'batch' || data.type === 'state'
  channel.onmessage = ({ data }: MessageEvent<FromHolder | ToHolder>) => {
    if (isMessage(data)) receive(data)
    else if (data.type === 'retry') held?.retry()
    else if (data.type === 'restart') held?.restart()
  }
  const lead = () =>
    new Promise<void>(resolve => {
      const both: Receive = message => {
        receive(message)
        channel.postMessage(message)
      }
      held = direct(url, both)
      // Events between the end of the last leader and this connection are missing, so pages fetch their data again.
      both({ type: 'batch', batch: { events: [], reset: true } })
      abort.signal.addEventListener('abort', () => resolve())
    })
  navigator.locks.request('timeball-events', { signal: abort.signal }, lead).catch(() => {})
  const ask = (type: 'retry' | 'restart') => {
    if (held !== null) held[type]()
    else channel.postMessage({ type } satisfies ToHolder)
  }
  return {
    retry: () => ask('retry'),
    restart: () => ask('restart'),
    close: () => {
      held?.close()
      abort.abort()
      channel.close()
    },
  }
}

function direct(url: string, receive: Receive): Transport {
  const open = () => {
    const opened = new EventConnection(url, {
      onBatch: batch => receive({ type: 'batch', batch }),
      onState: state => receive({ type: 'state', state }),
    })
    opened.start()
    return opened
  }
  let connection = open()
  return {
    retry: () => connection.retryNow(),
    restart: () => {
      connection.stop()
      connection = open()
    },
    close: () => connection.stop(),
  }
}
