import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { AuditEntry } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { DataTable } from '@/components/data-table'
import { FilterChips } from '@/components/filter-chips'
import { EmptyState, ErrorNotice, SkeletonRows } from '@/components/notices'
import { RangeChip } from '@/components/range-chip'
import { PageHead, Section } from '@/layout/page'
import { serverNow } from '@/lib/clock'
import { Button } from '@/ui/button'
import { Icon } from '@/ui/icon'
import { COLUMNS, CompactEntry } from './columns'
import { exportUrl, listCommands, verifyCommands } from './commands'
import { EntryPanel } from './entry-panel'
import { ACTIONS, apiFilter } from './model'
import { type AuditLogSearch, auditLogSearch, SCOPES } from './search'

const route = getRouteApi('/shell/audit-log')
const PAGE_SIZE = 100
const rowKey = (row: AuditEntry) => String(row.seq)
const compactRow = (row: AuditEntry) => <CompactEntry row={row} />
const SCOPE_NAMES = { tenant: 'This tenant', system: 'System' } as const
const NO_FILTER = { actor: undefined, action: undefined, resource: undefined, startTime: undefined, endTime: undefined }

/** The entries of the audit log, newest first. */
export function Page() {
  const denied = useDenied('admin')
  if (denied === undefined) return <AuditLog />
  return (
    <>
      <PageHead title="Audit log" name="Audit log" />
      <div className="min-w-0 px-4 pb-8 lg:px-6">
        <Section title="Audit log">
          <EmptyState icon="book" title="The audit log is for admins">
            {denied}
          </EmptyState>
        </Section>
      </div>
    </>
  )
}

function AuditLog() {
  const search = auditLogSearch(route.useSearch())
  const { scope = 'tenant', entry, ...filters } = search
  const navigate = route.useNavigate()
  const notSystem = useDenied('system')
  const set = useCallback(
    (change: AuditLogSearch) => void navigate({ search: before => ({ ...before, ...change }), replace: true }),
    [navigate],
  )
  const query = useInfiniteQuery({
    queryKey: keys.auditLog({ scope, ...filters }),
    queryFn: ({ pageParam, signal }) =>
      api.get('/v1/audit-log', {
        query: {
          ...apiFilter(search, serverNow()),
          limit: PAGE_SIZE,
          ...(pageParam === '' ? {} : { cursor: pageParam }),
        },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: page => page.nextCursor,
    placeholderData: keepPreviousData,
  })
  const rows = useMemo(() => query.data?.pages.flatMap(page => page.items) ?? [], [query.data])
  const open = useCallback((row: AuditEntry) => set({ entry: String(row.seq) }), [set])
  const opened = rows.find(row => String(row.seq) === entry)
  const more = () => query.hasNextPage && !query.isFetching && void query.fetchNextPage()
  return (
    <>
      <PageHead
        title="Audit log"
        name="Audit log"
        detail="Each request that changed something, with the values before and after."
        actions={
          <>
            <CopyAs label="Copy this list as a command" commands={() => listCommands(apiFilter(search, serverNow()))} />
            <CopyAs label="Verify" text commands={() => verifyCommands(scope)} />
            <a
              href={exportUrl(scope)}
              download={`audit-log-${scope}.ndjson`}
              className="inline-flex h-8 items-center gap-1.5 rounded-md border border-line-strong bg-surface px-3 text-sm hover:bg-hover"
            >
              <Icon name="download" />
              Export
            </a>
          </>
        }
      >
        <div className="-mx-4 flex items-center gap-1.5 overflow-x-auto px-4 py-0.5 sm:mx-0 sm:flex-wrap sm:px-0">
          {notSystem === undefined &&
            SCOPES.map(each => (
              <Button
                key={each}
                small
                look={each === scope ? 'primary' : 'plain'}
                aria-pressed={each === scope}
                onClick={() => set({ scope: each === 'tenant' ? undefined : each, entry: undefined })}
              >
                {SCOPE_NAMES[each]}
              </Button>
            ))}
          <RangeChip label="Time" startTime={search.startTime} endTime={search.endTime} onChange={set} />
          <FilterChips
            filters={[
              {
                kind: 'text',
                name: 'actor',
                label: 'Actor',
                value: search.actor,
                hint: 'Id or name of a credential, or id of a user.',
                onChange: actor => set({ actor }),
              },
              {
                kind: 'text',
                name: 'action',
                label: 'Action',
                value: search.action,
                hint: 'Such as job.pause, or job.* for all of jobs.',
                suggestions: ACTIONS,
                onChange: action => set({ action }),
              },
              {
                kind: 'text',
                name: 'resource',
                label: 'Resource',
                value: search.resource,
                hint: 'Id or name of what was changed.',
                onChange: resource => set({ resource }),
              },
            ]}
            onClear={() => set(NO_FILTER)}
          />
        </div>
      </PageHead>
      <div className="flex min-h-80 flex-1 flex-col border-t bg-surface">
        {query.data === undefined && query.error !== null && (
          <ErrorNotice error={query.error} onRetry={() => void query.refetch()} className="m-4" />
        )}
        {query.data === undefined && query.error === null && <SkeletonRows rows={8} />}
        {query.data !== undefined && rows.length === 0 && (
          <Nothing
            isFiltered={Object.keys(filters).length > 0}
            onClear={() => set(NO_FILTER)}
            onMore={query.hasNextPage ? more : undefined}
          />
        )}
        {rows.length > 0 && (
          <DataTable
            rows={rows}
            columns={COLUMNS}
            rowKey={rowKey}
            compact={compactRow}
            label="Entries of the audit log"
            onOpen={open}
            onEnd={more}
            {...(query.hasNextPage ? { footer: 'Loading more' } : { total: rows.length })}
          />
        )}
      </div>
      {opened !== undefined && <EntryPanel entry={opened} onClose={() => set({ entry: undefined })} />}
    </>
  )
}

function Nothing({
  isFiltered,
  onClear,
  onMore,
}: {
  isFiltered: boolean
  onClear: () => void
  onMore: (() => void) | undefined
}) {
  if (onMore !== undefined)
    return (
      <EmptyState
        icon="filter"
        title="Nothing among the newest entries"
        action={<Button onClick={onMore}>Search older entries</Button>}
      />
    )
  if (isFiltered)
    return (
      <EmptyState
        icon="filter"
        title="No entry matches"
        action={<Button onClick={onClear}>Clear the filters</Button>}
      />
    )
  return (
    <EmptyState icon="book" title="No entries yet" command="timeball audit-log list">
      Changes of jobs that fire more than once, tasks, calendars, keys and users are recorded here, and each cancel,
      retry, replay, pause and bulk action.
    </EmptyState>
  )
}
