import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useMemo, useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import { ConfirmDialog } from '@/components/confirm'
import { CopyAs } from '@/components/copy'
import { DataTable } from '@/components/data-table'
import { JobChip } from '@/components/job-chip'
import { EmptyState, ErrorNotice, SkeletonRows } from '@/components/notices'
import { PageHead } from '@/layout/page'
import { useShortcuts } from '@/lib/shortcuts'
import { count, plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { toast } from '@/ui/toast'
import { useJobName } from '../runs/filters'
import { BackfillPanel } from './backfill-panel'
import { CompactBackfill, columnsOf } from './columns'
import { cancelCommands, listCommands } from './commands'
import { type Backfill, isOver } from './model'
import { NewBackfill } from './new-backfill'
import { type BackfillsSearch, backfillsSearch } from './search'

const route = getRouteApi('/shell/backfills')
const PAGE_SIZE = 50
const rowKey = (row: Backfill) => row.backfillId
const compactRow = (row: Backfill) => <CompactBackfill row={row} />

/** The list of all backfills, newest first, with their progress. */
export function Page() {
  const search = backfillsSearch(route.useSearch())
  const { jobId } = search
  const navigate = route.useNavigate()
  const denied = useDenied('run')
  const [isNew, setNew] = useState(false)
  const [cancels, setCancels] = useState<Backfill | null>(null)
  const set = useCallback(
    (change: BackfillsSearch) => void navigate({ search: before => ({ ...before, ...change }), replace: true }),
    [navigate],
  )
  const filter = jobId === undefined ? {} : { jobId }
  const query = useInfiniteQuery({
    queryKey: keys.backfills('list', filter),
    queryFn: ({ pageParam, signal }) =>
      api.get('/v1/backfills', {
        query: { ...filter, limit: PAGE_SIZE, ...(pageParam === '' ? {} : { cursor: pageParam }) },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: page => page.nextCursor,
    placeholderData: keepPreviousData,
  })
  const rows = useMemo(() => query.data?.pages.flatMap(page => page.items) ?? [], [query.data])
  const jobName = useJobName(jobId)
  const columns = useMemo(() => columnsOf(denied === undefined ? setCancels : null), [denied])
  const open = useCallback((row: Backfill) => set({ backfill: row.backfillId }), [set])
  useShortcuts('Backfills', denied === undefined ? [{ keys: 'n', label: 'New backfill', run: () => setNew(true) }] : [])
  const active = rows.filter(row => !isOver(row))
  return (
    <>
      <PageHead
        title="Backfills"
        name="Backfills"
        detail={
          active.length > 0 &&
          `${count(active.length)} active, ${plural(
            active.reduce((sum, row) => sum + row.total - row.done, 0),
            'fire',
          )} to go`
        }
        actions={
          <>
            <CopyAs label="Copy this list as a command" commands={() => listCommands(jobId)} />
            <Button look="primary" icon="plus" why={denied} onClick={() => setNew(true)}>
              New backfill
            </Button>
          </>
        }
      >
        <div className="flex">
          <JobChip name={jobName} onChange={chosen => set({ jobId: chosen })} />
        </div>
      </PageHead>
      <div className="flex min-h-80 flex-1 flex-col border-t bg-surface">
        {query.data === undefined && query.error !== null && (
          <ErrorNotice error={query.error} onRetry={() => void query.refetch()} className="m-4" />
        )}
        {query.data === undefined && query.error === null && <SkeletonRows rows={8} />}
        {query.data !== undefined && rows.length === 0 && (
          <Nothing jobName={jobName} onClear={() => set({ jobId: undefined })} />
        )}
        {rows.length > 0 && (
          <DataTable
            rows={rows}
            columns={columns}
            rowKey={rowKey}
            compact={compactRow}
            label="Backfills"
            onOpen={open}
            onEnd={() => query.hasNextPage && !query.isFetching && void query.fetchNextPage()}
            {...(query.hasNextPage ? { footer: 'Loading more' } : { total: rows.length })}
          />
        )}
      </div>
      {search.backfill !== undefined && cancels === null && (
        <Opened
          backfillId={search.backfill}
          known={rows.find(row => row.backfillId === search.backfill)}
          onClose={() => set({ backfill: undefined })}
          onCancel={setCancels}
        />
      )}
      {isNew && <NewBackfill jobId={jobId} onClose={() => setNew(false)} />}
      {cancels !== null && <CancelDialog backfill={cancels} onClose={() => setCancels(null)} />}
    </>
  )
}

/** Shows the backfill that the address names. If the list does not contain it, it is fetched by its id. */
function Opened({
  backfillId,
  known,
  onClose,
  onCancel,
}: {
  backfillId: string
  known: Backfill | undefined
  onClose: () => void
  onCancel: (backfill: Backfill) => void
}) {
  const read = useQuery({
    queryKey: keys.backfills('one', backfillId),
    queryFn: ({ signal }) => api.get('/v1/backfills/{backfillId}', { path: { backfillId }, signal }),
    enabled: known === undefined,
    retry: false,
  })
  const backfill = known ?? read.data
  if (backfill === undefined)
    return read.error === null ? null : (
      <ErrorNotice
        error={read.error}
        hint="The link may be old. Close it, and look in the list."
        onRetry={onClose}
        className="fixed inset-x-4 bottom-4 z-40 mx-auto max-w-xl shadow-pop"
      />
    )
  return <BackfillPanel backfill={backfill} onClose={onClose} onCancel={() => onCancel(backfill)} />
}

function CancelDialog({ backfill, onClose }: { backfill: Backfill; onClose: () => void }) {
  const client = useQueryClient()
  const { backfillId } = backfill
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Cancel the backfill of ${backfill.jobName || backfill.jobId}?`}
      action="Cancel the backfill"
      danger
      commands={() => cancelCommands(backfillId)}
      onConfirm={async () => {
        await api.post('/v1/backfills/{backfillId}/cancel', { path: { backfillId } })
        toast.done('The backfill was cancelled')
        await client.invalidateQueries({ queryKey: keys.backfills() })
      }}
    >
      <p>
        {plural(backfill.remaining, 'fire')} that {backfill.remaining === 1 ? 'has' : 'have'} not run yet will not run
        {backfill.running > 0 && `, and ${plural(backfill.running, 'live run')} will be cancelled`}.
      </p>
      <p className="text-ink-2">
        {plural(backfill.done, 'run')} that ended {backfill.done === 1 ? 'stays' : 'stay'} as{' '}
        {backfill.done === 1 ? 'it is' : 'they are'}. This cannot be taken back; a new backfill can run the rest. To
        stop it for a while, pause its job.
      </p>
    </ConfirmDialog>
  )
}

function Nothing({ jobName, onClear }: { jobName: string | undefined; onClear: () => void }) {
  if (jobName !== undefined)
    return (
      <EmptyState
        icon="filter"
        title="This job has no backfills"
        action={<Button onClick={onClear}>Show those of all jobs</Button>}
      />
    )
  return (
    <EmptyState
      icon="backfill"
      title="No backfills yet"
      command="timeball jobs backfill JOB --from 2026-01-01 --to 2026-02-01 --parallelism 4"
    >
      A backfill runs the fires of a past range of a job, again or for the first time, oldest first, with a lower
      priority than new runs.
    </EmptyState>
  )
}
