import type { AuditEntry } from '@/api/types'
import { resolveTime } from '@/lib/range'
import type { AuditLogSearch, Scope } from './search'

/** Actions that the filter suggests. The server accepts any other, and a part of one with a star at its end. */
export const ACTIONS = [
  'job.*',
  'job.create',
  'job.update',
  'job.pause',
  'job.cancel',
  'workflow.*',
  'run.*',
  'run.cancel',
  'run.retry',
  'dead-letter.*',
  'task.*',
  'calendar.*',
  'api-key.*',
  'user.*',
  'tenant.*',
  'worker.*',
] as const

export type AuditFilter = {
  scope: Scope
  actor?: string
  action?: string
  resource?: string
  from?: string
  to?: string
}

/** Returns the filter for the API. A relative time becomes an instant before `now`. */
export function apiFilter(search: AuditLogSearch, now: number): AuditFilter {
  const given = {
    actor: search.actor,
    action: search.action,
    resource: search.resource,
    from: resolveTime(search.startTime, now),
    to: resolveTime(search.endTime, now),
  }
  const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  return { scope: search.scope ?? 'tenant', ...known }
}

export type Difference = { name: string; before: unknown; after: unknown }

/** Returns the fields of an entry, each with its value before and after; a value that does not exist is undefined. */
export function differences(entry: Pick<AuditEntry, 'before' | 'after'>): Difference[] {
  const before = entry.before ?? {}
  const after = entry.after ?? {}
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names.map(name => ({ name, before: before[name], after: after[name] }))
}

/** Returns the names of the first fields that an entry changed, for a row of the list. */
export function changedWords(entry: Pick<AuditEntry, 'before' | 'after'>): string {
  return differences(entry)
    .map(each => each.name)
    .slice(0, 8)
    .join(', ')
}

/** Returns the user of the credential, else the name of the credential. */
export function actorName(entry: AuditEntry): string {
  return entry.actor.userId ?? entry.actor.name
}

/** Returns the page of what was changed, relative to the base of the UI; null if it has none. */
export function pageOf(entry: Pick<AuditEntry, 'resource' | 'resourceId'>): string | null {
  const id = encodeURIComponent(entry.resourceId)
  if (id === '') return null
  switch (entry.resource) {
    case 'job':
      return `jobs/${id}`
    case 'workflow':
      return `workflows/${id}`
    case 'run':
      return `runs/${id}`
    case 'workflow-run':
      return `workflow-runs/${id}`
    case 'task':
      return `tasks/${id}`
    case 'calendar':
      return `calendars/${id}`
    case 'backfill':
      return `backfills?backfill=${id}`
    default:
      return null
  }
}
