import { useEffect, useRef, useState } from 'react'
import type { LogBuffer } from './buffer'
import { LogScan } from './search'

const SLICE_MS = 8
const REDRAW_MS = 150

export type LogSearch = { count: number; lines: readonly number[]; busy: boolean }

/** Searches a log in slices between frames, and continues in new output. */
export function useLogSearch(log: LogBuffer, version: number, query: string, exact: boolean): LogSearch {
  const scan = useRef<{ log: LogBuffer; query: string; exact: boolean; scan: LogScan } | null>(null)
  const [, redraw] = useState(0)
  useEffect(() => {
    if (query === '' || version < 0) {
      scan.current = null
      return
    }
    const before = scan.current
    if (before?.log !== log || before.query !== query || before.exact !== exact)
      scan.current = { log, query, exact, scan: new LogScan(query, exact) }
    let timer = 0
    let drawn = 0
    const step = () => {
      const now = scan.current?.scan
      if (now === undefined) return
      const until = performance.now() + SLICE_MS
      now.advance(log, () => performance.now() > until)
      const done = now.isDone(log)
      if (done || until > drawn + REDRAW_MS) {
        drawn = until
        redraw(value => value + 1)
      }
      if (!done) timer = window.setTimeout(step)
    }
    step()
    return () => clearTimeout(timer)
  }, [log, version, query, exact])
  const now = query === '' ? undefined : scan.current?.scan
  return { count: now?.count ?? 0, lines: now?.lines ?? [], busy: now !== undefined && !now.isDone(log) }
}
