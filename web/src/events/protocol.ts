import type { Batch, StreamState } from './types'

/**
 * Messages between the tabs of a browser and the SharedWorker, or the tab, that holds the connection for all of them.
 */
export type ToHolder = { type: 'hello'; url: string } | { type: 'bye' } | { type: 'retry' } | { type: 'restart' }
export type FromHolder = { type: 'batch'; batch: Batch } | { type: 'state'; state: StreamState }
