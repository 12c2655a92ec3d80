import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { Usage } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { type Column, DataTable } from '@/components/data-table'
import { EmptyState, Loaded, SkeletonRows } from '@/components/notices'
import { PageHead, Section } from '@/layout/page'
import { allPages } from '@/lib/all-pages'
import { serverNow } from '@/lib/clock'
import { count, duration, plural } from '@/lib/time'
import { Segments } from '@/ui/field'
import { Icon } from '@/ui/icon'
import {
  amount,
  csvUrl,
  firstDay,
  type Group,
  groupOf,
  size,
  sorted,
  type UsageSearch,
  usageCommands,
  usageSearch,
} from './usage'

const route = getRouteApi('/shell/usage')
const TITLES: Record<Group, string> = { day: 'Day', job: 'Job', user: 'User', tenant: 'Tenant' }

/** Usage and cost by day, job, user or tenant. */
export function Page() {
  const search = usageSearch(route.useSearch())
  const navigate = route.useNavigate()
  const seesAll = useDenied('system') === undefined
  const days = search.days ?? '30'
  const by = search.by === 'tenant' && !seesAll ? 'day' : (search.by ?? 'day')
  const from = firstDay(serverNow(), days)
  const set = (change: UsageSearch) => void navigate({ search: before => ({ ...before, ...change }), replace: true })
  const query = useQuery({
    queryKey: keys.usage({ from, by }),
    queryFn: ({ signal }) =>
      allPages<Usage>(cursor =>
        api.get('/v1/usage', {
          query: { from, groupBy: by, limit: 500, ...(cursor === undefined ? {} : { cursor }) },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  })
  const whole = query.data === undefined ? null : totals(query.data.items)
  return (
    <>
      <PageHead
        title="Usage"
        name="Usage"
        detail={
          whole !== null &&
          `${plural(whole.attempts, 'attempt')}, ${duration(whole.seconds * 1000)}, cost ${amount(String(whole.cost))}`
        }
        actions={
          <>
            <a
              href={csvUrl(from, by)}
              download="usage.csv"
              className="inline-flex h-8 items-center gap-1.5 rounded-md border px-2.5 text-sm hover:bg-hover"
            >
              <Icon name="download" /> CSV
            </a>
            <CopyAs commands={() => usageCommands(from, by)} />
          </>
        }
      >
        <div className="flex flex-wrap items-center gap-3">
          <Segments
            label="Group by"
            value={by}
            onChange={next => set({ by: next })}
            options={(['day', 'job', 'user', ...(seesAll ? (['tenant'] as const) : [])] as const).map(value => ({
              value,
              label: TITLES[value],
            }))}
          />
          <Segments
            label="Time"
            value={days}
            onChange={next => set({ days: next })}
            options={[
              { value: '7', label: '7 d' },
              { value: '30', label: '30 d' },
              { value: '90', label: '90 d' },
            ]}
          />
        </div>
      </PageHead>
      <div className="grid min-w-0 gap-4 px-4 pb-8 lg:px-6">
        <Section title={`By ${TITLES[by].toLowerCase()}`} className="overflow-clip">
          <Loaded query={query} skeleton={<SkeletonRows rows={8} height={36} />}>
            {found =>
              found.items.length === 0 ? (
                <EmptyState icon="sum" title="No attempt has ended in this time" command="timeball usage">
                  Attempts appear here when they end, on the day in UTC. Prices are set with the tenant.
                </EmptyState>
              ) : (
                <Groups items={found.items} by={by} />
              )
            }
          </Loaded>
        </Section>
        {query.data?.more === true && (
          <p className="text-ink-3 text-xs">The first {plural(query.data.items.length, 'group')}. The CSV has all.</p>
        )}
      </div>
    </>
  )
}

function Groups({ items, by }: { items: readonly Usage[]; by: Group }) {
  const rows = useMemo(() => sorted(items, by), [items, by])
  const columns = useMemo(() => columnsOf(by), [by])
  return (
    <DataTable
      label="Usage"
      rows={rows}
      columns={columns}
      rowKey={row => groupOf(row, by).id}
      compact={row => (
        <>
          <div className="flex items-center gap-2">
            <Name usage={row} by={by} />
            <span className="flex-1" />
            <span>{amount(row.cost)}</span>
          </div>
          <div className="text-ink-2 text-xs">
            {plural(row.attempts, 'attempt')}, {duration(Number(row.attemptSeconds) * 1000)}
          </div>
        </>
      )}
      className="max-h-[70vh]"
    />
  )
}

function columnsOf(by: Group): readonly Column<Usage>[] {
  return [
    { id: 'group', header: TITLES[by], width: 'minmax(11rem, 2fr)', cell: row => <Name usage={row} by={by} /> },
    { id: 'runs', header: 'Runs', width: '5.5rem', align: 'right', cell: row => count(row.runs) },
    { id: 'attempts', header: 'Attempts', width: '6rem', align: 'right', cell: row => count(row.attempts) },
    {
      id: 'time',
      header: 'Time',
      width: '7rem',
      align: 'right',
      cell: row => <span title={`${row.attemptSeconds} s`}>{duration(Number(row.attemptSeconds) * 1000)}</span>,
    },
    {
      id: 'cpu',
      header: 'CPU seconds',
      width: '8rem',
      align: 'right',
      minTable: 860,
      cell: row => <span title={row.cpuSeconds}>{amount(row.cpuSeconds)}</span>,
    },
    {
      id: 'memory',
      header: 'GiB seconds',
      width: '8rem',
      align: 'right',
      minTable: 860,
      cell: row => <span title={row.memoryGibSeconds}>{amount(row.memoryGibSeconds)}</span>,
    },
    {
      id: 'output',
      header: 'Output',
      width: '6rem',
      align: 'right',
      minTable: 760,
      cell: row => size(row.outputBytes),
    },
    {
      id: 'cost',
      header: 'Cost',
      width: '8rem',
      align: 'right',
      cell: row => (
        <span className="font-medium" title={row.cost}>
          {amount(row.cost)}
        </span>
      ),
    },
  ]
}

function Name({ usage, by }: { usage: Usage; by: Group }) {
  const { id, name } = groupOf(usage, by)
  if (by !== 'job' || id === '') return <span className="bidi-plain min-w-0 truncate font-medium">{name}</span>
  return (
    <Link
      to="/jobs/$jobId"
      params={{ jobId: id }}
      className="bidi-plain min-w-0 truncate font-medium text-accent hover:underline"
    >
      {name}
    </Link>
  )
}

function totals(items: readonly Usage[]) {
  const sum = (of: (usage: Usage) => number) => items.reduce((before, usage) => before + of(usage), 0)
  return {
    attempts: sum(usage => usage.attempts),
    seconds: sum(usage => Number(usage.attemptSeconds)),
    cost: sum(usage => Number(usage.cost)),
  }
}
