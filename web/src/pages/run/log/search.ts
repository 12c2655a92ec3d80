import { stripAnsi } from './ansi'
import type { LogBuffer } from './buffer'

/**
 * Searches a log for plain text. Patterns are not supported, so that the time of a search is bounded by the length of
 * the log.
 */

/** Maximum number of matching lines whose numbers are kept. Further matches are only counted. */
export const MAX_MATCHES = 20_000
const SLICE_LINES = 2000

/** Searches a log from its beginning, in slices, and keeps the numbers of the matching lines. */
export class LogScan {
  readonly lines: number[] = []
  count = 0
  #next = 0
  #needle: string
  #exact: boolean

  /** With `exact`, upper and lower case differ. */
  constructor(query: string, exact: boolean) {
    this.#exact = exact
    this.#needle = exact ? query : query.toLowerCase()
  }

  /** Returns true if all complete lines have been searched. */
  isDone(log: LogBuffer): boolean {
    return this.#next >= completeEnd(log)
  }

  /** Continues the search until `isOver` returns true. Returns true if it found a match. */
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

/** Returns the end of the complete lines. The last line may still grow. */
function completeEnd(log: LogBuffer): number {
  return log.open ? log.end - 1 : log.end
}

/** Returns the occurrences of a text in a line, at most `most`, as pairs of start and end. */
export function occurrences(text: string, query: string, exact: boolean, most = 200): [number, number][] {
  if (query === '') return []
  const inText = exact ? text : text.toLowerCase()
  // The length of a few letters depends on their case. The positions of matches in such a line are unknown.
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

/**
 * Returns the next match after a line, or before it, and continues at the other end. `lines` is sorted. Returns null if
 * there is no match.
 */
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
