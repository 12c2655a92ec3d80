import { instant, type Zone } from '@/lib/time'
import { offsetAt } from './ledger/periods'

/** The coming fires of a job, with the clock changes of its zone between them. */

export type ComingFire = { fireTime: string; mark?: string; note?: string }

export type FireRow =
  | { kind: 'fire'; at: number; mark: string | null; note: string }
  | { kind: 'change'; at: number; before: string; after: string }

/** Formats an offset as `+01:00`. */
export function offsetText(ms: number): string {
  const minutes = Math.abs(Math.round(ms / 60_000))
  const two = (value: number) => String(value).padStart(2, '0')
  return `${ms < 0 ? '−' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
}

/**
 * Returns the rows of the list. `marks` are the clock changes of the preview. The mark and the note of a fire itself
 * have precedence over them.
 */
export function fireRows(
  fires: readonly ComingFire[],
  zone: Zone | null,
  marks: ReadonlyMap<number, { mark: string; note: string }> = new Map(),
): FireRow[] {
  const rows: FireRow[] = []
  let before: number | null = null
  for (const fire of fires) {
    const at = instant(fire.fireTime)
    if (at === null) continue
    const offset: number | null = zone === null ? null : offsetAt(at, zone)
    if (before !== null && offset !== null && offset !== before)
      rows.push({ kind: 'change', at, before: offsetText(before), after: offsetText(offset) })
    before = offset
    const other = marks.get(at)
    rows.push({ kind: 'fire', at, mark: fire.mark ?? other?.mark ?? null, note: fire.note ?? other?.note ?? '' })
  }
  return rows
}
