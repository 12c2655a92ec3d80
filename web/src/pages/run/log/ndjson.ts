/** Splits a stream of bytes into JSON documents, one per line. */
export class NdjsonReader<T> {
  #decoder = new TextDecoder()
  #rest = ''

  /** Returns the documents that these bytes complete. Lines that are not valid JSON are skipped. */
  push(bytes: Uint8Array): T[] {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split('\n')
    this.#rest = lines.pop() ?? ''
    const found: T[] = []
    for (const line of lines) {
      if (line === '') continue
      try {
        found.push(JSON.parse(line) as T)
      } catch {
        // A line that is not valid JSON is skipped, and the others are returned.
      }
    }
    return found
  }
}
