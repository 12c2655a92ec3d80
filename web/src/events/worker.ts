/// <reference lib="webworker" />
import { EventConnection } from './connection'
import type { FromHolder, ToHolder } from './protocol'

/** The SharedWorker for all tabs of this origin. It keeps the connection open while at least one tab is open. */

const ports = new Set<MessagePort>()
let connection: EventConnection | null = null

function send(message: FromHolder): void {
  for (const port of ports) port.postMessage(message)
}

function join(port: MessagePort, url: string): void {
  ports.add(port)
  if (connection === null || connection.url !== url) {
    connection?.stop()
    connection = open(url)
  } else if (connection.state !== 'live') {
    connection.retryNow()
  }
  port.postMessage({ type: 'state', state: connection.state } satisfies FromHolder)
}

/** Reconnects after the credential changed. Events that the old credential was allowed to read are discarded. */
function restart(): void {
  const url = connection?.url
  if (url === undefined) return
  connection?.stop()
  connection = open(url)
}

function open(url: string): EventConnection {
  const opened = new EventConnection(url, {
    onBatch: batch => send({ type: 'batch', batch }),
    onState: state => send({ type: 'state', state }),
  })
  opened.start()
  return opened
}

function leave(port: MessagePort): void {
  ports.delete(port)
  if (ports.size > 0) return
  connection?.stop()
  connection = null
}

const scope = self as unknown as SharedWorkerGlobalScope
scope.onconnect = event => {
  const port = event.ports[0]
  if (port === undefined) return
  port.onmessage = ({ data }: MessageEvent<ToHolder>) => {
    if (data.type === 'hello') join(port, data.url)
    else if (data.type === 'bye') leave(port)
    else if (data.type === 'restart') restart()
    else connection?.retryNow()
  }
}
