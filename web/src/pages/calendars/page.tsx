import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { Calendar } from '@/api/types'
import { type Column, DataTable } from '@/components/data-table'
import { EmptyState, Loaded, Skeleton } from '@/components/notices'
import { RowLink } from '@/components/row-link'
import { SearchField } from '@/components/search-field'
import { RelativeTime } from '@/components/time'
import { PageHead } from '@/layout/page'
import { allPages } from '@/lib/all-pages'
import { serverNow } from '@/lib/clock'
import { text } from '@/lib/search'
import { useShortcuts } from '@/lib/shortcuts'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { type Period, periodOf } from '../job/ledger/periods'
import { ClosedStrip } from './picture'
import { NowState } from './state'
import { type ClosedTimes, useClosed } from './use-closed'
import { summary } from './words'

const route = getRouteApi('/shell/calendars')
const STRIP_DAYS = 56
const EXAMPLE = 'timeball calendars set holidays --tz Europe/Berlin --date 2026-12-25 --date 2026-12-26'

/** The list of all calendars, each with its current state and the coming eight weeks. */
export function Page() {
  const q = text(route.useSearch(), 'q')
  const setSearch = route.useNavigate()
  const navigate = useNavigate()
  const denied = useDenied('edit')
  const query = useQuery({
    queryKey: keys.calendars('list'),
    queryFn: ({ signal }) =>
      allPages<Calendar>(cursor =>
        api.get('/v1/calendars', { query: { limit: 500, ...(cursor === undefined ? {} : { cursor }) }, signal }),
      ),
  })
  const create = () => void navigate({ to: '/new/calendar' })
  useShortcuts('Calendars', [{ keys: 'n', label: 'New calendar', run: create }])
  const shown = useMemo(() => {
    const wanted = q?.toLowerCase() ?? ''
    return (query.data?.items ?? []).filter(item =>
      `${item.name} ${item.description ?? ''} ${summary(item.entries)}`.toLowerCase().includes(wanted),
    )
  }, [query.data, q])
  return (
    <>
      <PageHead
        title="Calendars"
        name="Calendars"
        detail="Times at which jobs do not fire: holidays, freezes, weekends."
        actions={
          <Button look="primary" icon="plus" why={denied} onClick={create}>
            New calendar
          </Button>
        }
      >
        <SearchField
          value={q}
          onChange={value => void setSearch({ search: before => ({ ...before, q: value }), replace: true })}
          label="Search calendars"
          placeholder="Search by name or reason"
        />
      </PageHead>
      <Loaded query={query}>
        {found =>
          found.items.length === 0 ? (
            <EmptyState icon="calendar" title="No calendars yet" command={EXAMPLE}>
              A calendar has closed times. A job that refers to it does not fire then, or fires once when it opens.
            </EmptyState>
          ) : shown.length === 0 ? (
            <EmptyState icon="search" title="No calendar matches">
              The search looks into names, descriptions and reasons.
            </EmptyState>
          ) : (
            <DataTable
              rows={shown}
              columns={COLUMNS}
              rowKey={calendar => calendar.name}
              compact={compact}
              label="Calendars"
              onOpen={calendar => void navigate({ to: '/calendars/$name', params: { name: calendar.name } })}
              footer={
                found.more ? `The first ${plural(found.items.length, 'calendar')}` : plural(shown.length, 'calendar')
              }
              className="border-t bg-surface"
            />
          )
        }
      </Loaded>
    </>
  )
}

/** Returns a period that begins at midnight in the zone of the calendar, so that its answer is cached for the day. */
function stripPeriod(calendar: Calendar): Period {
  const { from } = periodOf('day', serverNow(), calendar.timezone ?? 'UTC')
  return { from, to: from + STRIP_DAYS * 86_400_000 }
}

function WithTimes({
  calendar,
  children,
}: {
  calendar: Calendar
  children: (times: ClosedTimes, period: Period) => React.ReactNode
}) {
  const period = stripPeriod(calendar)
  const times = useClosed(calendar, period)
  if (times.data !== undefined) return children(times.data, period)
  return times.error === null ? <Skeleton className="h-2.5 w-3/4" /> : <span className="text-ink-3">unknown</span>
}

const COLUMNS: readonly Column<Calendar>[] = [
  {
    id: 'name',
    header: 'Calendar',
    width: 'minmax(9rem, 1.2fr)',
    cell: calendar => (
      <RowLink
        to={`calendars/${encodeURIComponent(calendar.name)}`}
        title={calendar.description || undefined}
        className="bidi-plain font-medium hover:text-accent hover:underline"
      >
        {calendar.name}
      </RowLink>
    ),
  },
  {
    id: 'now',
    header: 'Now',
    width: '12rem',
    cell: calendar => <WithTimes calendar={calendar}>{times => <NowState times={times} />}</WithTimes>,
  },
  {
    id: 'strip',
    header: 'Next eight weeks',
    width: 'minmax(10rem, 1.6fr)',
    minTable: 760,
    cell: calendar => (
      <WithTimes calendar={calendar}>
        {(times, period) => <ClosedStrip closed={times.closed} period={period} />}
      </WithTimes>
    ),
  },
  {
    id: 'entries',
    header: 'Closed',
    width: 'minmax(9rem, 1.6fr)',
    cell: calendar => (
      <span className="bidi-plain text-ink-2" title={summary(calendar.entries)}>
        {summary(calendar.entries)}
      </span>
    ),
  },
  {
    id: 'zone',
    header: 'Time zone',
    width: '10rem',
    minTable: 900,
    cell: calendar => <span className="text-ink-2">{calendar.timezone}</span>,
  },
  {
    id: 'updated',
    header: 'Changed',
    width: '6rem',
    align: 'right',
    minTable: 1000,
    cell: calendar => <RelativeTime at={calendar.updatedAt} className="text-ink-2" />,
  },
]

const compact = (calendar: Calendar) => (
  <>
    <div className="flex items-center gap-2">
      <span className="bidi-plain min-w-0 flex-1 truncate font-medium">{calendar.name}</span>
      <WithTimes calendar={calendar}>{times => <NowState times={times} />}</WithTimes>
    </div>
    <div className="bidi-plain truncate text-ink-2 text-xs">{summary(calendar.entries)}</div>
  </>
)
