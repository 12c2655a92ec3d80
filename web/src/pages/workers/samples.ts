import { useSyncExternalStore } from 'react'
import type { WorkerRow } from './model'

/** Samples of the used slots, taken by this browser tab, because the API returns only the current values. */
export type Sample = { at: number; busy: number; slots: number; byWorker: ReadonlyMap<string, number> }

export const MAX_SAMPLES = 360
export const MIN_DISTANCE_MS = 1000

/**
 * Appends a sample. If it follows the last one too soon, it replaces it. If there are too many, samples of the older
 * half are removed.
 */
export function withSample(samples: readonly Sample[], next: Sample): readonly Sample[] {
  const last = samples.at(-1)
  if (last !== undefined && next.at <= last.at) return samples
  const before = samples.at(-2)
  const isTooSoon = last !== undefined && before !== undefined && next.at - before.at < 2 * MIN_DISTANCE_MS
  const all = [...(isTooSoon ? samples.slice(0, -1) : samples), next]
  if (all.length <= MAX_SAMPLES) return all
  const half = Math.floor(all.length / 2)
  return all.filter((_, at) => at >= half || at % 2 === 0)
}

/** Returns the used slots of a worker in each sample; null where the worker was not connected. */
export function usageOf(samples: readonly Sample[], workerId: string): (number | null)[] {
  return samples.map(sample => sample.byWorker.get(workerId) ?? null)
}

let kept: readonly Sample[] = []
const listeners = new Set<() => void>()

export function record(at: number, rows: readonly WorkerRow[]): void {
  const there = rows.filter(row => row.endedAt === null)
  const next = withSample(kept, {
    at,
    busy: there.reduce((sum, row) => sum + row.inUse.slots, 0),
    slots: there.reduce((sum, row) => sum + row.slots, 0),
    byWorker: new Map(there.map(row => [row.workerId, row.inUse.slots])),
  })
  if (next === kept) return
  kept = next
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function useSamples(): readonly Sample[] {
  return useSyncExternalStore(subscribe, () => kept)
}
