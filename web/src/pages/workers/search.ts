import { choice, compact, list, text } from '@/lib/search'
import type { WorkerState } from '@/lib/states'

export const STATES = ['live', 'draining', 'lost', 'drained', 'left'] as const satisfies readonly WorkerState[]

export type WorkersSearch = {
  q?: string | undefined
  label?: string | undefined
  state?: WorkerState[] | undefined
  /** `1` shows also the workers that left. */
  gone?: '1' | undefined
  /** The id of the open worker. */
  worker?: string | undefined
}

export function workersSearch(raw: Record<string, unknown>): WorkersSearch {
  return compact({
    q: text(raw, 'q'),
    label: text(raw, 'label'),
    state: list(raw, 'state', STATES),
    gone: choice(raw, 'gone', ['1']),
    worker: text(raw, 'worker'),
  })
}
