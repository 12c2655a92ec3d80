/** Compares two definitions field by field. The time that this takes grows linearly with their size. */

export type Change = { path: string; before: string | null; after: string | null }

/** Fields that are not part of the definition. */
const LEFT_OUT = new Set(['version', 'updatedAt', 'nextFireAt', 'status', 'warnings', 'slot', 'createdAt', 'jobId'])
const MAX_CHANGES = 500

export function changesBetween(before: unknown, after: unknown): Change[] {
  const old = flat(before)
  const now = flat(after)
  const changes: Change[] = []
  for (const [path, value] of old) {
    const next = now.get(path)
    if (next !== value) changes.push({ path, before: value, after: next ?? null })
  }
  for (const [path, value] of now) if (!old.has(path)) changes.push({ path, before: null, after: value })
  changes.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))
  return changes.slice(0, MAX_CHANGES)
}

/** Returns each value that contains no other values, by its path, such as `schedule.expression` or `tags[0]`. */
function flat(value: unknown): Map<string, string> {
  const found = new Map<string, string>()
  const visit = (item: unknown, path: string) => {
    if (Array.isArray(item) && item.length > 0)
      for (const [index, child] of item.entries()) visit(child, `${path}[${index}]`)
    else if (typeof item === 'object' && item !== null && !Array.isArray(item) && Object.keys(item).length > 0)
      for (const [name, child] of Object.entries(item)) {
        if (path === '' && LEFT_OUT.has(name)) continue
        visit(child, path === '' ? name : `${path}.${name}`)
      }
    else found.set(path, JSON.stringify(item) ?? 'null')
  }
  visit(value, '')
  return found
}
