/** Returns the line in which each value of a JSON text begins, by JSON pointer. The text must be valid JSON. */
export function pointerLines(text: string): Map<string, number> {
  const lines = new Map<string, number>()
  let at = 0
  let line = 1

  const space = () => {
    while (at < text.length && ' \t\r\n'.includes(text.charAt(at))) {
      if (text.charAt(at) === '\n') line++
      at++
    }
  }
  const string = (): string => {
    const start = at
    at++
    while (at < text.length && text.charAt(at) !== '"') at += text.charAt(at) === '\\' ? 2 : 1
    at++
    return text.slice(start, at)
  }
  const value = (pointer: string): void => {
    space()
    lines.set(pointer, line)
    const first = text.charAt(at)
    if (first === '"') string()
    else if (first === '{') object(pointer)
    else if (first === '[') array(pointer)
    else while (at < text.length && !',]} \t\r\n'.includes(text.charAt(at))) at++
  }
  const object = (pointer: string): void => {
    at++
    space()
    while (at < text.length && text.charAt(at) !== '}') {
      const name = JSON.parse(string()) as string
      space()
      at++
      value(`${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`)
      next()
    }
    at++
  }
  const array = (pointer: string): void => {
    at++
    space()
    for (let index = 0; at < text.length && text.charAt(at) !== ']'; index++) {
      value(`${pointer}/${index}`)
      next()
    }
    at++
  }
  const next = () => {
    space()
    if (text.charAt(at) === ',') at++
    space()
  }

  try {
    JSON.parse(text)
    value('')
  } catch {
    return new Map()
  }
  return lines
}

export type PointedError = { pointer: string; detail: string }

/** Returns the line of a value. A missing value has no line, so the line of the nearest value around it is returned. */
export function lineOf(lines: ReadonlyMap<string, number>, pointer: string): number | null {
  let path = pointer
  for (;;) {
    const found = lines.get(path)
    if (found !== undefined) return found
    if (path === '') return null
    path = path.slice(0, path.lastIndexOf('/'))
  }
}

/** Returns the error message for the value of a field, or for a part of that value. */
export function errorAt(errors: readonly PointedError[], pointer: string): string | undefined {
  const found = errors.filter(error => error.pointer === pointer || error.pointer.startsWith(`${pointer}/`))
  return found.length === 0 ? undefined : found.map(error => error.detail).join(' ')
}

/** Returns the errors that no field of the form shows. */
export function unclaimed(errors: readonly PointedError[], fields: readonly string[]): PointedError[] {
  return errors.filter(error => !fields.some(field => error.pointer === field || error.pointer.startsWith(`${field}/`)))
}
