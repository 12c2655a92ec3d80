/** The lines of a log in memory. New lines are appended. Above the limit, the oldest lines are removed. */

export type LogChunk = { attempt: number; seq: number; stream: string; at: string; text: string }

export type LogLine = { text: string; stream: string; at: string; attempt: number }

/** The stream of a line that is the heading of an attempt. */
export const ATTEMPT_STREAM = 'attempt'

const BLOCK_LINES = 4096
/** Maximum number of characters that are kept. Browsers use one or two bytes per character. */
export const MAX_LOG_LENGTH = 128 * 1024 * 1024
/** The server numbers chunks by attempt and sequence. A cursor combines both numbers. */
const PLACES = 1_000_000

type Mark = { line: number; stream: string; at: string; attempt: number }

export class LogBuffer {
  #blocks: string[][] = []
  #marks: Mark[] = []
  #attempts: { attempt: number; line: number }[] = []
  #first = 0
  #end = 0
  #length = 0
  #open = false
  #place = -1
  #limit: number

  constructor(limit = MAX_LOG_LENGTH) {
    this.#limit = limit
  }

  /** The number of the first kept line. */
  get first(): number {
    return this.#first
  }

  /** The number of the last line plus one. */
  get end(): number {
    return this.#end
  }

  /** The number of characters in memory. */
  get length(): number {
    return this.#length
  }

  /** True if the last line is not complete. */
  get open(): boolean {
    return this.#open
  }

  /** The first line of each attempt. */
  get attempts(): readonly { attempt: number; line: number }[] {
    return this.#attempts
  }

  /** The cursor after the last chunk, which the next request sends. */
  get cursor(): string | undefined {
    return this.#place < 0 ? undefined : String(this.#place)
  }

  clear(): void {
    this.#blocks = []
    this.#marks = []
    this.#attempts = []
    this.#first = 0
    this.#end = 0
    this.#length = 0
    this.#open = false
    this.#place = -1
  }

  /**
   * Appends a chunk. Returns false if it does not follow the last one: a worker has released its attempt, and the next
   * one writes the output anew. The caller then clears the buffer and fetches the log from its beginning.
   */
  append(chunk: LogChunk): boolean {
    const place = chunk.attempt * PLACES + chunk.seq
    if (place <= this.#place) return false
    this.#place = place
    const last = this.#marks.at(-1)
    if (last?.attempt !== chunk.attempt) this.#beginAttempt(chunk)
    else if (last.stream !== chunk.stream) this.#open = false
    this.#addText(chunk)
    this.#dropOldest()
    return true
  }

  #beginAttempt(chunk: LogChunk): void {
    this.#open = false
    this.#attempts.push({ attempt: chunk.attempt, line: this.#end })
    // The first attempt has no heading.
    if (chunk.attempt === 1) return
    this.#mark({ ...chunk, stream: ATTEMPT_STREAM })
    this.#push(`Attempt ${chunk.attempt}`)
  }

  #addText(chunk: LogChunk): void {
    const parts = chunk.text.split('\n')
    if (this.#open) this.#grow(parts.shift() ?? '')
    const endsLine = parts.at(-1) === ''
    if (parts.length > 0) {
      if (endsLine) parts.pop()
      if (parts.length > 0) this.#mark(chunk)
      for (const part of parts) this.#push(part)
      this.#open = !endsLine
    }
  }

  #mark({ stream, at, attempt }: LogChunk): void {
    this.#marks.push({ line: this.#end, stream, at, attempt })
  }

  #push(text: string): void {
    const block = this.#blocks.at(-1)
    if (block === undefined || block.length === BLOCK_LINES) this.#blocks.push([text])
    else block.push(text)
    this.#end += 1
    this.#length += text.length
  }

  #grow(text: string): void {
    const block = this.#blocks.at(-1)
    if (block === undefined) return
    block[block.length - 1] = (block.at(-1) ?? '') + text
    this.#length += text.length
  }

  #dropOldest(): void {
    while (this.#length > this.#limit && this.#blocks.length > 1) {
      const dropped = this.#blocks.shift() ?? []
      this.#first += dropped.length
      for (const line of dropped) this.#length -= line.length
      const keep = this.#markAt(this.#first)
      if (keep > 0) this.#marks.splice(0, keep)
    }
  }

  /** Returns the text of a line, or '' if the buffer does not contain it. */
  text(line: number): string {
    const index = line - this.#first
    if (index < 0) return ''
    return this.#blocks[Math.floor(index / BLOCK_LINES)]?.[index % BLOCK_LINES] ?? ''
  }

  line(line: number): LogLine {
    const mark = this.#marks[this.#markAt(line)]
    return {
      text: this.text(line),
      stream: mark?.stream ?? 'stdout',
      at: mark?.at ?? '',
      attempt: mark?.attempt ?? 1,
    }
  }

  /** Returns the index of the last mark at or before a line. */
  #markAt(line: number): number {
    let low = 0
    let high = this.#marks.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#marks[middle]?.line ?? 0) <= line) low = middle
      else high = middle - 1
    }
    return low
  }
}
