/** Splits a stream of bytes into JSON documents, one per line. */
export class NdjsonReader<T> {
  #decoder = new TextDecoder()
  #rest = ''

  /** The documents that are complete with these bytes. A line that is no JSON is left out. */
  push(bytes: Uint8Array): T[] {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split('\n')
    this.#rest = lines.pop() ?? ''
    const found: T[] = []
    for (const line of lines) {
      if (line === '') continue
      try {
        found.push(JSON.parse(line) as T)
      } catch {
        // A broken line is no reason to lose the others.
      }
    }
    return found
  }
}
