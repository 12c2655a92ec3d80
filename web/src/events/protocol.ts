import type { Batch, StreamState } from './types'

/** Messages between the tabs of a browser and what holds the connection for them. */
export type ToHolder = { type: 'hello'; url: string } | { type: 'bye' } | { type: 'retry' } | { type: 'restart' }
export type FromHolder = { type: 'batch'; batch: Batch } | { type: 'state'; state: StreamState }
