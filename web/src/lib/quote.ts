/** Commands to copy: the same action in three languages. */

export type Commands = { curl: string; cli: string | null; python: string | null }

/** A word of a POSIX shell that means exactly this text. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** `curl` with the address of this page's server. The key comes from the environment, never from the page. */
export function curl(method: string, url: string, body?: unknown): string {
  const words = ['curl -sS', '-H "Authorization: Bearer $TIMEBALL_TOKEN"']
  if (method !== 'GET' && !(method === 'POST' && body !== undefined)) words.push(`-X ${method}`)
  if (body !== undefined) words.push("-H 'Content-Type: application/json'", `-d ${shellWord(JSON.stringify(body))}`)
  words.push(shellWord(url))
  return words.join(' ')
}

/** A Python literal for a JSON value. */
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

/** `client.retry_run("r_1", reason="…")`, with the lines that a script needs around it. */
export function python(
  method: string,
  args: readonly unknown[],
  keywords: Readonly<Record<string, unknown>> = {},
): string {
  const given = Object.entries(keywords).filter(([, value]) => value !== undefined)
  const all = [...args.map(pythonLiteral), ...given.map(([name, value]) => `${name}=${pythonLiteral(value)}`)]
  return `import timeball\n\nwith timeball.Client() as client:\n    client.${method}(${all.join(', ')})\n`
}

/** `timeball runs retry r_1 --reason '…'`. An option that is true has no value; one that is undefined or false is absent. */
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
