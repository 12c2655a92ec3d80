import type { AuditEntry } from '@/api/types'
import type { Column } from '@/components/data-table'
import { RowLink } from '@/components/row-link'
import { RelativeTime, Time } from '@/components/time'
import { actorName, changedWords, pageOf } from './model'

export const COLUMNS: readonly Column<AuditEntry>[] = [
  { id: 'at', header: 'Time', width: '8.5rem', cell: row => <Time at={row.at} className="text-ink-2" /> },
  {
    id: 'actor',
    header: 'Actor',
    width: 'minmax(7rem, 1fr)',
    cell: row => <span className="bidi-plain font-medium">{actorName(row)}</span>,
  },
  { id: 'action', header: 'Action', width: '9.5rem', cell: row => <Action entry={row} /> },
  { id: 'resource', header: 'Resource', width: 'minmax(9rem, 1.5fr)', cell: row => <Resource entry={row} /> },
  {
    id: 'changed',
    header: 'Fields',
    width: 'minmax(8rem, 2fr)',
    minTable: 860,
    cell: row => <span className="bidi-plain text-ink-2">{changedWords(row)}</span>,
  },
  {
    id: 'address',
    header: 'From',
    width: '9rem',
    minTable: 1000,
    cell: row => <span className="font-mono text-ink-2 text-xs">{row.address || '–'}</span>,
  },
]

export function Action({ entry }: { entry: AuditEntry }) {
  return <span className="font-mono text-xs">{entry.action}</span>
}

export function Resource({ entry }: { entry: AuditEntry }) {
  const page = pageOf(entry)
  if (entry.resourceId === '') return <span className="text-ink-3">several</span>
  if (page === null) return <span className="bidi-plain font-mono text-xs">{entry.resourceId}</span>
  return (
    <RowLink to={page} className="bidi-plain font-mono text-xs hover:text-accent hover:underline">
      {entry.resourceId}
    </RowLink>
  )
}

/** A row on a narrow screen, in two lines. */
export function CompactEntry({ row }: { row: AuditEntry }) {
  return (
    <div className="grid gap-0.5">
      <div className="flex items-center gap-2">
        <span className="min-w-0 flex-1 truncate">
          <Action entry={row} />
        </span>
        <RelativeTime at={row.at} className="text-ink-2 text-xs" />
      </div>
      <div className="flex items-center gap-2 text-ink-2 text-xs">
        <span className="bidi-plain min-w-0 truncate font-medium">{actorName(row)}</span>
        <span className="bidi-plain min-w-0 flex-1 truncate font-mono">{row.resourceId || changedWords(row)}</span>
      </div>
    </div>
  )
}
