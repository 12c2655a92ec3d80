import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl, queryString } from '@/lib/url'
import type { AuditFilter } from './model'

/** Returns the commands that list what the page shows. */
export function listCommands(filter: AuditFilter): Commands {
  const { scope, from, to, ...rest } = filter
  const scoped = scope === 'tenant' ? {} : { scope }
  return {
    curl: curl('GET', apiUrl('/v1/audit-log') + queryString({ ...rest, from, to, ...scoped })),
    cli: cli(['audit-log', 'list'], { ...rest, from, to, ...scoped }),
    python: python('audit_log', [], { ...rest, since: from, until: to, ...scoped }),
  }
}

/** Returns the commands that check the entries. `curl` exports them, for a verification without the server. */
export function verifyCommands(scope: string): Commands {
  const scoped = scope === 'tenant' ? {} : { scope }
  return {
    curl: curl('GET', exportUrl(scope)),
    cli: cli(['audit-log', 'verify'], scoped),
    python: null,
  }
}

export function exportUrl(scope: string): string {
  return apiUrl('/v1/audit-log/export') + queryString(scope === 'tenant' ? {} : { scope })
}
