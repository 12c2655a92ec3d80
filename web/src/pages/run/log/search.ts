import { stripAnsi } from './ansi'
import type { LogBuffer } from './buffer'

/** Search in a log: text as it is, no patterns, so that no search can take longer than the log is long. */

/** The numbers of this many lines are kept; the others are only counted. */
export const MAX_MATCHES = 20_000
const SLICE_LINES = 2000

/** Reads a log from its beginning, a slice at a time, and keeps the numbers of the lines that match. */
export class LogScan {
  readonly lines: number[] = []
  count = 0
  #next = 0
  #needle: string
  #exact: boolean

  /** `exact` tells capital letters from small ones. */
  constructor(query: string, exact: boolean) {
    this.#exact = exact
    this.#needle = exact ? query : query.toLowerCase()
  }

  /** Whether everything that is complete has been read. */
  isDone(log: LogBuffer): boolean {
    return this.#next >= completeEnd(log)
  }

  /** Reads on until `isOver` says that the time is used up. True if something was found. */
  advance(log: LogBuffer, isOver: () => boolean): boolean {
    const before = this.count
    this.#next = Math.max(this.#next, log.first)
    const end = completeEnd(log)
    while (this.#next < end && !isOver()) {
      const to = Math.min(end, this.#next + SLICE_LINES)
      for (; this.#next < to; this.#next++) if (this.#matches(log.text(this.#next))) this.#found()
    }
    return this.count > before
  }

  #found(): void {
    this.count += 1
    if (this.lines.length < MAX_MATCHES) this.lines.push(this.#next)
  }

  #matches(line: string): boolean {
    const text = stripAnsi(line)
    return (this.#exact ? text : text.toLowerCase()).includes(this.#needle)
  }
}

/** The last line counts when it is complete. */
function completeEnd(log: LogBuffer): number {
  return log.open ? log.end - 1 : log.end
}

/** Where a text occurs in a line: pairs of start and end, at most `most`. */
export function occurrences(text: string, query: string, exact: boolean, most = 200): [number, number][] {
  if (query === '') return []
  const inText = exact ? text : text.toLowerCase()
  // Few letters change their length with their case; their positions cannot be told.
  if (inText.length !== text.length) return []
  const needle = exact ? query : query.toLowerCase()
  const found: [number, number][] = []
  let at = inText.indexOf(needle)
  while (at >= 0 && found.length < most) {
    found.push([at, at + needle.length])
    at = inText.indexOf(needle, at + needle.length)
  }
  return found
}

/** The next match after a line (or before it), around the end. Lines are in order. Null without matches. */
export function nextMatch(lines: readonly number[], from: number, step: 1 | -1): number | null {
  const first = lines[0]
  const last = lines.at(-1)
  if (first === undefined || last === undefined) return null
  let low = 0
  let high = lines.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((lines[middle] ?? 0) < from + (step === 1 ? 1 : 0)) low = middle + 1
    else high = middle
  }
  return step === 1 ? (lines[low] ?? first) : (lines[low - 1] ?? last)
}
