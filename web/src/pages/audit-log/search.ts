import { choice, compact, text } from '@/lib/search'

export const SCOPES = ['tenant', 'system'] as const
export type Scope = (typeof SCOPES)[number]

export type AuditLogSearch = {
  /** `system` shows the changes that belong to no tenant. */
  scope?: Scope | undefined
  actor?: string | undefined
  action?: string | undefined
  resource?: string | undefined
  startTime?: string | undefined
  endTime?: string | undefined
  /** The number of the open entry. */
  entry?: string | undefined
}

export function auditLogSearch(raw: Record<string, unknown>): AuditLogSearch {
  return compact({
    scope: choice(raw, 'scope', SCOPES),
    actor: text(raw, 'actor'),
    action: text(raw, 'action'),
    resource: text(raw, 'resource'),
    startTime: text(raw, 'startTime'),
    endTime: text(raw, 'endTime'),
    entry: text(raw, 'entry'),
  })
}
