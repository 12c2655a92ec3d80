/** Parses a text/event-stream into frames. A chunk may end anywhere in a frame. */

export type Frame = { id: string | null; event: string; data: string }

/** Maximum length of a line. The parser treats a longer one as an error of the stream. */
const MAX_LINE_LENGTH = 1_000_000

export class SseParser {
  #rest = ''
  #id: string | null = null
  #event = ''
  #data: string[] = []
  #skipNewline = false

  /** The id of the last frame, even if that frame had no data. The next connection continues after it. */
  get lastId(): string | null {
    return this.#id
  }

  push(chunk: string): Frame[] {
    let text = this.#rest + chunk
    if (this.#skipNewline && text.startsWith('\n')) text = text.slice(1)
    this.#skipNewline = text === '' && this.#skipNewline
    const frames: Frame[] = []
    let start = 0
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i)
      if (c !== 10 && c !== 13) continue
      this.#line(text.slice(start, i), frames)
      if (c === 13) {
        if (i + 1 === text.length) this.#skipNewline = true
        else if (text.charCodeAt(i + 1) === 10) i++
      }
      start = i + 1
    }
    this.#rest = text.slice(start)
    if (this.#rest.length > MAX_LINE_LENGTH) throw new Error('a line of the event stream is too long')
    return frames
  }

  #line(line: string, frames: Frame[]): void {
    if (line === '') {
      if (this.#data.length > 0)
        frames.push({ id: this.#id, event: this.#event || 'message', data: this.#data.join('\n') })
      this.#event = ''
      this.#data = []
      return
    }
    if (line.startsWith(':')) return
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#event = value
    else if (field === 'id' && !value.includes('\0')) this.#id = value
  }
}
