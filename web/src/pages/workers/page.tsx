import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useEffect, useMemo, useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { Run } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { DataTable } from '@/components/data-table'
import { FilterChips } from '@/components/filter-chips'
import { EmptyState, ErrorNotice, SkeletonRows } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { PageHead } from '@/layout/page'
import { serverNow } from '@/lib/clock'
import { cli } from '@/lib/quote'
import { useShortcuts } from '@/lib/shortcuts'
import { WORKER_STATES, type WorkerState } from '@/lib/states'
import { count, plural } from '@/lib/time'
import { baseUrl } from '@/lib/url'
import { Button } from '@/ui/button'
import { CompactWorker, columnsOf } from './columns'
import { listCommands } from './commands'
import { DrainDialog } from './drain-dialog'
import { FleetSummary } from './fleet'
import { fleetOf, isShown, rowsOf, runsByWorker, type WorkerRow } from './model'
import { record } from './samples'
import { STATES, type WorkersSearch, workersSearch } from './search'
import { WorkerPanel } from './worker-panel'

const route = getRouteApi('/shell/workers')
const REFRESH_MS = 5000
const MAX_RUNS = 200
const NONE: readonly Run[] = []
const rowKey = (row: WorkerRow) => row.workerId
const compactRow = (row: WorkerRow) => <CompactWorker row={row} />
const rowClass = (row: WorkerRow) =>
  row.state === 'lost' && !row.isBack ? 'bg-bad-soft' : row.endedAt !== null ? 'bg-sunken' : undefined

/** The list of all workers with their state, slots, resources and current runs, and the action to drain one. */
export function Page() {
  const search = workersSearch(route.useSearch())
  const navigate = route.useNavigate()
  const denied = useDenied('system')
  const [drains, setDrains] = useState<WorkerRow | null>(null)
  const set = useCallback(
    (change: WorkersSearch) => void navigate({ search: before => ({ ...before, ...change }), replace: true }),
    [navigate],
  )
  const workers = useQuery({
    queryKey: keys.workers('list'),
    queryFn: ({ signal }) => api.get('/v1/workers', { query: { include: 'gone' }, signal }),
    refetchInterval: REFRESH_MS,
  })
  const runs = useQuery({
    queryKey: keys.workers('running'),
    queryFn: ({ signal }) => api.get('/v1/runs', { query: { status: 'running', limit: MAX_RUNS }, signal }),
    refetchInterval: REFRESH_MS,
  })
  const rows = useMemo(() => workers.data && rowsOf(workers.data.items), [workers.data])
  useEffect(() => {
    if (rows !== undefined) record(serverNow(), rows)
  }, [rows])
  const running = useMemo(() => runsByWorker(rows ?? [], runs.data?.items ?? NONE), [rows, runs.data])
  const columns = useMemo(
    () =>
      columnsOf({
        runsOf: row => running.get(row.workerId) ?? NONE,
        drain: setDrains,
        canDrain: denied === undefined,
      }),
    [running, denied],
  )
  const fleet = useMemo(() => rows && fleetOf(rows), [rows])
  const shown = rows?.filter(row => isShown(row, search)) ?? []
  const opened = rows?.find(row => row.workerId === search.worker)
  const open = useCallback((row: WorkerRow) => set({ worker: row.workerId }), [set])
  const isFiltered = search.q !== undefined || search.label !== undefined || search.state !== undefined
  useShortcuts('Workers', [
    {
      keys: 'h',
      label: 'Show or hide workers that left',
      run: () => set({ gone: search.gone === '1' ? undefined : '1' }),
    },
  ])
  return (
    <>
      <PageHead
        title="Workers"
        name="Workers"
        detail={
          fleet !== undefined &&
          fleet.live + fleet.draining > 0 &&
          `${plural(fleet.running, 'run')} on ${plural(fleet.live + fleet.draining, 'worker')}`
        }
        actions={<CopyAs label="Copy this list as a command" commands={listCommands} />}
      >
        <Filters search={search} labels={labelsOf(rows ?? [])} set={set} />
      </PageHead>
      <div className="px-4 pb-4 lg:px-6">
        <FleetSummary fleet={fleet} />
      </div>
      <div className="flex min-h-80 flex-1 flex-col border-t bg-surface">
        {rows === undefined && workers.error !== null && (
          <ErrorNotice error={workers.error} onRetry={() => void workers.refetch()} className="m-4" />
        )}
        {rows === undefined && workers.error === null && <SkeletonRows rows={6} />}
        {rows !== undefined && shown.length === 0 && (
          <Nothing isFiltered={isFiltered} onClear={() => set({ q: undefined, label: undefined, state: undefined })} />
        )}
        {shown.length > 0 && (
          <DataTable
            rows={shown}
            columns={columns}
            rowKey={rowKey}
            compact={compactRow}
            rowClass={rowClass}
            label="Workers"
            total={shown.length}
            onOpen={open}
          />
        )}
        {fleet !== undefined && fleet.gone > 0 && search.state === undefined && (
          <p className="flex items-center justify-center gap-3 border-t px-4 py-2 text-ink-2 text-sm">
            {count(fleet.gone)} left within the last hour
            <Button small onClick={() => set({ gone: search.gone === '1' ? undefined : '1' })}>
              {search.gone === '1' ? 'Hide' : 'Show'}
            </Button>
          </p>
        )}
      </div>
      {opened !== undefined && drains === null && (
        <WorkerPanel worker={opened} onClose={() => set({ worker: undefined })} onDrain={() => setDrains(opened)} />
      )}
      {drains !== null && (
        <DrainDialog
          worker={drains}
          isLast={fleet !== undefined && fleet.live <= 1 && drains.state === 'live'}
          onClose={() => setDrains(null)}
        />
      )}
    </>
  )
}

function labelsOf(rows: readonly WorkerRow[]): string[] {
  return [...new Set(rows.flatMap(row => row.labels))].toSorted().slice(0, 100)
}

function Filters({
  search,
  labels,
  set,
}: {
  search: WorkersSearch
  labels: readonly string[]
  set: (change: WorkersSearch) => void
}) {
  return (
    <FilterChips
      onClear={() => set({ q: undefined, label: undefined, state: undefined })}
      filters={[
        {
          kind: 'text',
          name: 'q',
          label: 'Name',
          value: search.q,
          hint: 'Part of the name, or the id of a worker.',
          onChange: q => set({ q }),
        },
        {
          kind: 'many',
          name: 'state',
          label: 'State',
          values: search.state ?? [],
          options: STATES.map(state => ({
            value: state,
            label: <StateBadge worker={state} />,
            text: WORKER_STATES[state].label,
          })),
          onChange: values => set({ state: values.length === 0 ? undefined : (values as WorkerState[]) }),
        },
        {
          kind: 'text',
          name: 'label',
          label: 'Label',
          value: search.label,
          suggestions: labels,
          onChange: label => set({ label }),
        },
      ]}
    />
  )
}

function Nothing({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered)
    return (
      <EmptyState icon="filter" title="No worker matches" action={<Button onClick={onClear}>Clear the filter</Button>}>
        Workers that left more than an hour ago are not listed.
      </EmptyState>
    )
  return (
    <EmptyState
      icon="workers"
      title="No worker is live"
      command={`(umask 077; timeball keys create --role worker > worker.key)\n${cli(['worker'], {
        server: baseUrl().href.replace(/\/$/, ''),
        'token-file': 'worker.key',
      })}`}
    >
      Runs wait until a worker registers. Create a key for it, and start it on any machine that reaches this server.
    </EmptyState>
  )
}
