/** The commands that a user can copy for an action: `curl`, the command line and Python. */

export type Commands = { curl: string; cli: string | null; python: string | null }

/** Quotes a text as one word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/**
 * Returns a `curl` command for a URL of this server. It reads the key from an environment variable; the page never
 * inserts it.
 */
export function curl(method: string, url: string, body?: unknown): string {
  const words = ['curl -sS', '-H "Authorization: Bearer $TIMEBALL_TOKEN"']
  if (method !== 'GET' && !(method === 'POST' && body !== undefined)) words.push(`-X ${method}`)
  if (body !== undefined) words.push("-H 'Content-Type: application/json'", `-d ${shellWord(JSON.stringify(body))}`)
  words.push(shellWord(url))
  return words.join(' ')
}

/** Returns a JSON value as a Python literal. */
export function pythonLiteral(value: unknown): string {
  if (value === null || value === undefined) return 'None'
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (typeof value === 'string') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(', ')}]`
  if (typeof value === 'object') {
    const items = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${pythonLiteral(item)}`)
    return `{${items.join(', ')}}`
  }
  return String(value)
}

/** Returns a Python script with one call, such as `client.retry_run("r_1", reason="…")`. */
export function python(
  method: string,
  args: readonly unknown[],
  keywords: Readonly<Record<string, unknown>> = {},
): string {
  const given = Object.entries(keywords).filter(([, value]) => value !== undefined)
  const all = [...args.map(pythonLiteral), ...given.map(([name, value]) => `${name}=${pythonLiteral(value)}`)]
  return `import timeball\n\nwith timeball.Client() as client:\n    client.${method}(${all.join(', ')})\n`
}

/**
 * Returns a command such as `timeball runs retry r_1 --reason '…'`. An option with the value true is written without a
 * value; one that is undefined or false is omitted.
 */
export function cli(
  words: readonly string[],
  options: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>> = {},
): string {
  const parts = ['timeball', ...words.map(shellWord)]
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === false || value === '') continue
    if (value === true) parts.push(`--${name}`)
    else for (const item of Array.isArray(value) ? value : [value]) parts.push(`--${name}`, shellWord(String(item)))
  }
  return parts.join(' ')
}
