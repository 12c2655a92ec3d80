/** The lines of a log, in memory. It grows at the end; beyond its limit the oldest lines are dropped. */

export type LogChunk = { attempt: number; seq: number; stream: string; at: string; text: string }

export type LogLine = { text: string; stream: string; at: string; attempt: number }

/** A line of its own that says where an attempt begins. */
export const ATTEMPT_STREAM = 'attempt'

const BLOCK_LINES = 4096
/** Characters kept. Text of one byte per character takes as many bytes. */
export const MAX_LOG_LENGTH = 128 * 1024 * 1024
/** The server numbers chunks by attempt and sequence; its cursors are made of both. */
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

  /** The number of the first line that is kept. */
  get first(): number {
    return this.#first
  }

  /** One more than the number of the last line. */
  get end(): number {
    return this.#end
  }

  /** Characters in memory. */
  get length(): number {
    return this.#length
  }

  /** Whether the last line may still grow. */
  get open(): boolean {
    return this.#open
  }

  /** Where each attempt begins. */
  get attempts(): readonly { attempt: number; line: number }[] {
    return this.#attempts
  }

  /** The cursor after the last chunk, for the next request. */
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
   * Adds a chunk. False if it does not follow the last one: a worker has given its attempt back, and its output is
   * written anew. The caller then clears the buffer and reads from the beginning.
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
    // The first attempt needs no heading until there is a second.
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

  /** The text of a line, or '' for one that is not here. */
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

  /** The index of the last mark at or before a line. */
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
