import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { useDenied } from '@/api/session'
import type { JobRow, JobStatus } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { DataTable, type TableHandle } from '@/components/data-table'
import { FilterChips } from '@/components/filter-chips'
import { ListFooter, NewRows } from '@/components/list-status'
import { EmptyState, ErrorNotice, SkeletonRows } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { PageHead } from '@/layout/page'
import { useLiveList } from '@/lib/live-list'
import { cli, curl, python } from '@/lib/quote'
import { compact } from '@/lib/search'
import { useShortcuts } from '@/lib/shortcuts'
import { JOB_STATES } from '@/lib/states'
import { apiUrl, queryString } from '@/lib/url'
import { Button } from '@/ui/button'
import { Input } from '@/ui/field'
import { Icon } from '@/ui/icon'
import { Menu, MenuItem, MenuLabel } from '@/ui/menu'
import { JOB_ACTIONS, type JobActionName, JobsBulk, whyNot } from './bulk'
import { CompactJob, JOB_COLUMNS } from './columns'
import { applyBatch, jobsList } from './rows'
import { JOB_STATUSES, type JobsSearch, KINDS, SCHEDULE_TYPES } from './search'

const route = getRouteApi('/shell/jobs')
const rowKey = (job: JobRow) => job.jobId
const compactRow = (job: JobRow) => <CompactJob job={job} />

/**
 * The list of all jobs, with a search, their next fires and last runs, and actions on all jobs that match the filter.
 */
export function Page() {
  const search = route.useSearch()
  const key = JSON.stringify(search)
  const list = useMemo(() => jobsList(JSON.parse(key) as JobsSearch), [key])
  const state = useLiveList(list, applyBatch)
  const navigate = useNavigate()
  const setSearch = route.useNavigate()
  const denied = useDenied('run')
  const noNew = useDenied('edit')
  const table = useRef<TableHandle>(null)
  const [bulk, setBulk] = useState<JobActionName | null>(null)
  const create = () => void navigate({ to: '/jobs/new', search: {} })
  useShortcuts('Jobs', [{ keys: 'n', label: 'New job', run: create }])

  const open = useCallback(
    (job: JobRow) => void navigate({ to: '/jobs/$jobId', params: { jobId: job.jobId } }),
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
  const change = useCallback(
    (next: JobsSearch) => void setSearch({ search: before => compact({ ...before, ...next }), replace: true }),
    [setSearch],
  )

  return (
    <>
      <PageHead
        title="Jobs"
        name="Jobs"
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
              <MenuLabel>All jobs of this filter</MenuLabel>
              {(Object.keys(JOB_ACTIONS) as JobActionName[]).map(name => (
                <MenuItem
                  key={name}
                  icon={JOB_ACTIONS[name].icon}
                  danger={name === 'cancel'}
                  why={whyNot(name, search)}
                  onSelect={() => setBulk(name)}
                >
                  {JOB_ACTIONS[name].verb} all…
                </MenuItem>
              ))}
            </Menu>
            <Button icon="plus" look="primary" why={noNew} onClick={create}>
              New job
            </Button>
          </>
        }
      >
        <div className="flex flex-wrap items-center gap-2">
          <SearchField value={search.q} onChange={change} />
          <div className="-mx-4 min-w-0 max-w-[100vw] overflow-x-auto px-4 py-0.5 sm:mx-0 sm:max-w-none sm:px-0">
            <JobFilters search={search} onChange={change} rows={state.rows} />
          </div>
        </div>
      </PageHead>
      <div className="relative flex min-h-80 flex-1 flex-col border-t bg-surface">
        <NewRows list={list} state={state} noun="job" onShow={() => table.current?.scrollToTop()} />
        {!state.ready && state.error !== null && (
          <ErrorNotice error={state.error} onRetry={() => void list.loadMore()} className="m-4" />
        )}
        {!state.ready && state.error === null && <SkeletonRows rows={16} />}
        {state.ready && state.rows.length === 0 && <NoJobs search={search} />}
        {state.ready && state.rows.length > 0 && (
          <DataTable
            key={key}
            ref={table}
            label="Jobs"
            rows={state.rows}
            columns={JOB_COLUMNS}
            rowKey={rowKey}
            compact={compactRow}
            onOpen={open}
            onEnd={list.loadMore}
            onScroll={onScroll}
            initialScroll={list.scrollTop}
            {...(state.complete ? { total: state.rows.length } : {})}
            footer={<ListFooter list={list} state={state} noun="job" />}
          />
        )}
      </div>
      {bulk !== null && (
        <JobsBulk name={bulk} search={search} onClose={() => setBulk(null)} refresh={() => void list.restart()} />
      )}
    </>
  )
}

const TYPING_DELAY_MS = 150

/** A search field. The address is updated a moment after the last key. */
function SearchField({ value, onChange }: { value: string | undefined; onChange: (change: JobsSearch) => void }) {
  const [text, setText] = useState(value ?? '')
  const [seen, setSeen] = useState(value)
  if (seen !== value) {
    setSeen(value)
    if ((value ?? '') !== text.trim()) setText(value ?? '')
  }
  useEffect(() => {
    const wanted = text.trim() === '' ? undefined : text.trim()
    if (wanted === value) return
    const timer = setTimeout(() => onChange({ q: wanted }), TYPING_DELAY_MS)
    return () => clearTimeout(timer)
  }, [text, value, onChange])
  return (
    <div className="relative w-full sm:w-64">
      <Icon name="search" size={14} className="absolute top-2 left-2.5 text-ink-3" />
      <Input
        data-search
        type="search"
        aria-label="Search jobs"
        placeholder="Name or id"
        value={text}
        maxLength={200}
        onChange={event => setText(event.target.value)}
        className="pl-8"
      />
    </div>
  )
}

function JobFilters({
  search,
  onChange,
  rows,
}: {
  search: JobsSearch
  onChange: (change: JobsSearch) => void
  rows: readonly JobRow[]
}) {
  const tags = useMemo(() => [...new Set(rows.slice(0, 500).flatMap(job => job.tags))].sort().slice(0, 100), [rows])
  const one = (name: 'kind' | 'scheduleType', label: string, values: readonly string[]) => ({
    kind: 'many' as const,
    name,
    label,
    values: search[name] === undefined ? [] : [search[name]],
    options: values.map(value => ({ value, label: value, text: value })),
    // The API accepts one value, so the last chosen one replaces the others.
    onChange: (chosen: string[]) => onChange({ [name]: chosen.at(-1) }),
  })
  return (
    <FilterChips
      filters={[
        {
          kind: 'many',
          name: 'status',
          label: 'Status',
          values: search.status ?? [],
          options: JOB_STATUSES.map(status => ({
            value: status,
            label: <StateBadge job={status} />,
            text: JOB_STATES[status].label,
          })),
          onChange: values => onChange({ status: values.length === 0 ? undefined : (values as JobStatus[]) }),
        },
        {
          kind: 'text',
          name: 'tag',
          label: 'Tag',
          value: search.tag,
          suggestions: tags,
          onChange: tag => onChange({ tag }),
        },
        one('kind', 'Kind', KINDS),
        {
          kind: 'text',
          name: 'userId',
          label: 'Owner',
          value: search.userId,
          onChange: userId => onChange({ userId }),
        },
        one('scheduleType', 'Schedule', SCHEDULE_TYPES),
      ]}
      onClear={() =>
        onChange({ status: undefined, tag: undefined, kind: undefined, userId: undefined, scheduleType: undefined })
      }
    />
  )
}

function NoJobs({ search }: { search: JobsSearch }) {
  if (Object.keys(search).length === 0)
    return (
      <EmptyState icon="jobs" title="No jobs yet" command="timeball jobs create hello --shell 'echo hello' --every 10s">
        A job says what to run and when.{' '}
        <Link to="/jobs/new" search={{}} className="text-accent underline">
          Create one here
        </Link>
        , or with a command:
      </EmptyState>
    )
  return (
    <EmptyState
      icon="filter"
      title="No job matches"
      action={
        <Link to="/jobs" search={{}} className="text-accent text-sm underline">
          Clear the filter
        </Link>
      }
    />
  )
}

function listCommands(search: JobsSearch) {
  const status = search.status?.join(',')
  return {
    curl: curl('GET', apiUrl('/v1/jobs') + queryString({ ...search, status })),
    cli: cli(['jobs', 'list'], { status, tag: search.tag, 'user-id': search.userId }),
    python: python('jobs', [], { status, tag: search.tag, user_id: search.userId }),
  }
}
