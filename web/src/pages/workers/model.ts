import type { Worker } from '@/api/types'
import type { WorkerState } from '@/lib/states'
import { instant } from '@/lib/time'
import type { WorkersSearch } from './search'

/** A worker with the values that the page computes. */
export type WorkerRow = Worker & {
  state: WorkerState
  /** True if the worker ended and a connected worker has the same name, so that it needs no attention. */
  isBack: boolean
}

export function stateOf(worker: Pick<Worker, 'status' | 'drainingSince'>): WorkerState {
  return worker.status === 'left' && worker.drainingSince !== null ? 'drained' : worker.status
}

const ORDER: Record<WorkerState, number> = { lost: 0, draining: 1, live: 1, drained: 2, left: 2 }

/**
 * Returns the rows in order: lost workers, connected ones by name, ended ones, and last those whose name is connected
 * again. Ended workers are sorted by their ends, the last one first.
 */
export function rowsOf(workers: readonly Worker[]): WorkerRow[] {
  const there = new Set(workers.filter(worker => worker.endedAt === null).map(worker => worker.name))
  const rows = workers.map(worker => ({
    ...worker,
    state: stateOf(worker),
    isBack: worker.endedAt !== null && there.has(worker.name),
  }))
  const rank = (row: WorkerRow) => (row.isBack ? 3 : ORDER[row.state])
  return rows.toSorted(
    (a, b) =>
      rank(a) - rank(b) ||
      (b.endedAt ?? '').localeCompare(a.endedAt ?? '') ||
      a.name.localeCompare(b.name, 'en', { numeric: true }) ||
      a.workerId.localeCompare(b.workerId),
  )
}

/**
 * Returns true if the filter shows a worker. Without selected states, it hides workers that left and lost ones that are
 * back.
 */
export function isShown(row: WorkerRow, search: WorkersSearch): boolean {
  const wanted = search.q?.toLowerCase()
  if (wanted !== undefined && !row.name.toLowerCase().includes(wanted) && row.workerId !== search.q) return false
  if (search.label !== undefined && !row.labels.includes(search.label)) return false
  if (search.state !== undefined) return search.state.includes(row.state)
  return search.gone === '1' || row.endedAt === null || (row.state === 'lost' && !row.isBack)
}

export type Fleet = {
  live: number
  draining: number
  lost: number
  /** The number of workers that left, or were lost and are connected again. */
  gone: number
  slots: number
  busy: number
  running: number
  /** The sum over the workers that declare a limit; null if none does. */
  cpu: number | null
  cpuUsed: number
  memoryMb: number | null
  memoryUsed: number
}

export function fleetOf(rows: readonly WorkerRow[]): Fleet {
  const there = rows.filter(row => row.endedAt === null)
  const sum = (pick: (row: WorkerRow) => number) => there.reduce((total, row) => total + pick(row), 0)
  const limited = (pick: (row: WorkerRow) => number | null) =>
    there.some(row => pick(row) !== null) ? sum(row => pick(row) ?? 0) : null
  return {
    live: there.filter(row => row.state === 'live').length,
    draining: there.filter(row => row.state === 'draining').length,
    lost: rows.filter(row => row.state === 'lost' && !row.isBack).length,
    gone: rows.filter(row => row.endedAt !== null && (row.state !== 'lost' || row.isBack)).length,
    slots: sum(row => row.slots),
    busy: sum(row => row.inUse.slots),
    running: sum(row => row.running),
    cpu: limited(row => row.cpu),
    cpuUsed: sum(row => row.inUse.cpu),
    memoryMb: limited(row => row.memoryMb),
    memoryUsed: sum(row => row.inUse.memoryMb),
  }
}

/** Returns true if more than half of the lease has passed since the last beat. */
export function isBeatLate(row: Pick<WorkerRow, 'seenAt' | 'leaseUntil' | 'endedAt'>, now: number): boolean {
  const [seen, until] = [instant(row.seenAt), instant(row.leaseUntil)]
  return row.endedAt === null && seen !== null && until !== null && now - seen > (until - seen) / 2
}

/** Formats memory as `512 MiB`, `8 GiB` or `7.5 GiB`. */
export function memory(mib: number): string {
  if (mib < 1024) return `${mib} MiB`
  return `${Number((mib / 1024).toFixed(1))} GiB`
}

/**
 * Groups runs by the worker that executes them. A run has the name of its worker, so it is left out if several workers
 * have this name.
 */
export function runsByWorker<T extends { executorId: string | null }>(
  workers: readonly WorkerRow[],
  runs: readonly T[],
): Map<string, T[]> {
  const ids = new Map<string, string | null>()
  for (const worker of workers)
    if (worker.endedAt === null) ids.set(worker.name, ids.has(worker.name) ? null : worker.workerId)
  const found = new Map<string, T[]>()
  for (const run of runs) {
    const id = ids.get(run.executorId ?? '')
    if (id === null || id === undefined) continue
    const known = found.get(id)
    if (known === undefined) found.set(id, [run])
    else known.push(run)
  }
  return found
}
