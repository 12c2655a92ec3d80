import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useCallback, useMemo, useRef, useState } from 'react'
import { useDenied } from '@/api/session'
import { CopyAs } from '@/components/copy'
import { DataTable, type TableHandle } from '@/components/data-table'
import { ListFooter, NewRows } from '@/components/list-status'
import { EmptyState, ErrorNotice, SkeletonRows } from '@/components/notices'
import { PageHead } from '@/layout/page'
import { useLiveList } from '@/lib/live-list'
import { cli, curl, python } from '@/lib/quote'
import { compact } from '@/lib/search'
import { apiUrl, queryString } from '@/lib/url'
import { Button } from '@/ui/button'
import { Menu, MenuItem, MenuLabel } from '@/ui/menu'
import { RUN_ACTIONS, type RunActionName, RunsBulk } from './bulk'
import { CompactRun, RUN_COLUMNS } from './columns'
import { RunFilters } from './filters'
import { apiFilter, applyBatch, type RunRow, runsList } from './rows'
import type { RunsSearch } from './search'
import { ViewBar } from './views'

const route = getRouteApi('/shell/runs')
const rowKey = (row: RunRow) => row.runId
const compactRow = (row: RunRow) => <CompactRun row={row} />

/** The list of all runs, newest first, with filters, and actions on all runs that match the filter. */
export function Page() {
  const search = route.useSearch()
  const key = JSON.stringify(search)
  const list = useMemo(() => runsList(JSON.parse(key) as RunsSearch), [key])
  const state = useLiveList(list, applyBatch)
  const navigate = useNavigate()
  const setSearch = route.useNavigate()
  const denied = useDenied('run')
  const table = useRef<TableHandle>(null)
  const [bulk, setBulk] = useState<RunActionName | null>(null)

  const open = useCallback(
    (row: RunRow) => void navigate({ to: '/runs/$runId', params: { runId: row.runId } }),
    [navigate],
  )
  const onScroll = useCallback(
    (top: number, first: number, last: number) => {
      list.atTop = top < 40
      list.scrollTop = top
      list.range = [first, last]
    },
    [list],
  )
  const change = (next: RunsSearch) => void setSearch({ search: before => compact({ ...before, ...next }) })

  return (
    <>
      <PageHead
        title="Runs"
        name="Runs"
        actions={
          <>
            <CopyAs label="Copy this list as a command" commands={() => listCommands(search)} />
            <Menu
              trigger={
                <Button icon="down" why={denied}>
                  Act on all
                </Button>
              }
            >
              <MenuLabel>All runs of this filter</MenuLabel>
              {Object.values(RUN_ACTIONS).map(item => (
                <MenuItem
                  key={item.action}
                  icon={item.action === 'cancel' ? 'stop' : 'retry'}
                  danger={item.action === 'cancel'}
                  onSelect={() => setBulk(item.action as RunActionName)}
                >
                  {item.verb} all…
                </MenuItem>
              ))}
            </Menu>
          </>
        }
      >
        <ViewBar search={search} />
        <RunFilters search={search} onChange={change} />
      </PageHead>
      <div className="relative flex min-h-80 flex-1 flex-col border-t bg-surface">
        <NewRows list={list} state={state} noun="run" onShow={() => table.current?.scrollToTop()} />
        {!state.ready && state.error !== null && (
          <ErrorNotice error={state.error} onRetry={() => void list.loadMore()} className="m-4" />
        )}
        {!state.ready && state.error === null && <SkeletonRows rows={16} />}
        {state.ready && state.rows.length === 0 && (
          <NoRuns search={search} onClear={() => void setSearch({ search: {} })} />
        )}
        {state.ready && state.rows.length > 0 && (
          <DataTable
            key={key}
            ref={table}
            label="Runs"
            rows={state.rows}
            columns={RUN_COLUMNS}
            rowKey={rowKey}
            compact={compactRow}
            onOpen={open}
            onEnd={list.loadMore}
            onScroll={onScroll}
            initialScroll={list.scrollTop}
            {...(state.complete ? { total: state.rows.length } : {})}
            footer={<ListFooter list={list} state={state} noun="run" />}
          />
        )}
      </div>
      {bulk !== null && (
        <RunsBulk name={bulk} search={search} onClose={() => setBulk(null)} refresh={() => void list.restart()} />
      )}
    </>
  )
}

function NoRuns({ search, onClear }: { search: RunsSearch; onClear: () => void }) {
  if (Object.keys(search).length === 0)
    return (
      <EmptyState icon="runs" title="No runs yet" command="timeball jobs create hello --shell 'echo hello' --wait">
        A run appears here as soon as a job is due.
      </EmptyState>
    )
  return (
    <EmptyState icon="filter" title="No run matches" action={<Button onClick={onClear}>Clear the filter</Button>}>
      Runs that are older than the retention have been removed.
    </EmptyState>
  )
}

function listCommands(search: RunsSearch) {
  const filter = apiFilter(search)
  const text = (name: string) => (Array.isArray(filter[name]) ? filter[name].join(',') : filter[name])
  const query = Object.fromEntries(Object.keys(filter).map(name => [name, text(name)]))
  return {
    curl: curl('GET', apiUrl('/v1/runs') + queryString(query)),
    cli: cli(['runs', 'list'], {
      status: text('status'),
      origin: text('origin'),
      job: text('jobId'),
      tag: text('tag'),
      'user-id': text('userId'),
      'task-id': text('taskId'),
      from: text('startTime'),
      to: text('endTime'),
    }),
    python: python('runs', [], {
      status: text('status'),
      job_id: text('jobId'),
      tag: text('tag'),
      user_id: text('userId'),
      task_id: text('taskId'),
      since: text('startTime'),
      until: text('endTime'),
    }),
  }
}
