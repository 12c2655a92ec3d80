import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { Calendar } from '@/api/types'
import { ConfirmDialog } from '@/components/confirm'
import { CopyAs } from '@/components/copy'
import { JsonView } from '@/components/json-view'
import { Loaded, Skeleton } from '@/components/notices'
import { RelativeTime } from '@/components/time'
import { UsingJobs } from '@/components/using-jobs'
import { PageHead, Section } from '@/layout/page'
import { serverNow } from '@/lib/clock'
import { choice, text } from '@/lib/search'
import { useShortcuts } from '@/lib/shortcuts'
import { duration, instant, plural, type Zone } from '@/lib/time'
import { Button } from '@/ui/button'
import { toast } from '@/ui/toast'
import { type Closed, longTime } from '../calendars/closed'
import { closedCommands, deleteCommands, putCommands } from '../calendars/commands'
import { EntryWords } from '../calendars/entry-words'
import { NowState } from '../calendars/state'
import { useClosed } from '../calendars/use-closed'
import { CalendarView, periodOfView, type Shown } from '../calendars/view'
import { periodOf } from '../job/ledger/periods'

const route = getRouteApi('/shell/calendars/$name')
const NOW_DAYS = 60

/**
 * The page of one calendar: its open and closed times as a picture, its entries in words, and the jobs that refer to
 * it.
 */
export function Page() {
  const { name } = route.useParams()
  const calendar = useQuery({
    queryKey: keys.calendars('one', name),
    queryFn: ({ signal }): Promise<Calendar> => api.get('/v1/calendars/{name}', { path: { name }, signal }),
  })
  return (
    <Loaded query={calendar} skeleton={<Waiting name={name} />}>
      {found => <One calendar={found} />}
    </Loaded>
  )
}

function One({ calendar }: { calendar: Calendar }) {
  const search = route.useSearch()
  const setSearch = route.useNavigate()
  const navigate = useNavigate()
  const denied = useDenied('edit')
  const [deleting, setDeleting] = useState(false)
  const zone = calendar.timezone ?? 'UTC'
  const shown: Shown = {
    level: choice(search, 'level', ['month', 'year'] as const) ?? 'month',
    at: instant(text(search, 'at')) ?? serverNow(),
  }
  const show = (next: Shown) => {
    const at = new Date(periodOfView(next, zone).from).toISOString().slice(0, 19)
    void setSearch({ search: before => ({ ...before, level: next.level, at: `${at}Z` }), replace: true })
  }
  const edit = () => void navigate({ to: '/calendars/$name/edit', params: { name: calendar.name } })
  useShortcuts('Calendar', [{ keys: 'e', label: 'Edit', run: edit }])
  const body = { timezone: zone, entries: calendar.entries }
  return (
    <>
      <PageHead
        title={<span className="bidi-plain">{calendar.name}</span>}
        name={calendar.name}
        detail={
          <span className="flex flex-wrap items-center gap-x-3">
            <NowNow calendar={calendar} />
            <span>{zone}</span>
            <span>
              version {calendar.version}, changed <RelativeTime at={calendar.updatedAt} />
            </span>
          </span>
        }
        actions={
          <>
            <CopyAs commands={() => putCommands(calendar.name, definition(calendar))} />
            <Button icon="trash" why={denied} onClick={() => setDeleting(true)}>
              Delete
            </Button>
            <Button icon="edit" look="primary" why={denied} onClick={edit}>
              Edit
            </Button>
          </>
        }
      >
        {calendar.description !== undefined && calendar.description !== '' && (
          <p className="bidi-plain max-w-prose whitespace-pre-line text-ink-2 text-sm [overflow-wrap:anywhere]">
            {calendar.description}
          </p>
        )}
      </PageHead>
      <div className="grid min-w-0 items-start gap-4 px-4 pb-8 lg:px-6 xl:grid-cols-[minmax(0,1fr)_22rem] 2xl:grid-cols-[minmax(0,1fr)_30rem]">
        <div className="grid min-w-0 gap-4">
          <CalendarView calendar={body} shown={shown} onShow={show}>
            {(times, period) => (
              <ClosedList
                closed={times.closed}
                zone={zone}
                copy={<CopyAs commands={() => closedCommands(calendar.name, body, period)} />}
              />
            )}
          </CalendarView>
        </div>
        <div className="grid min-w-0 gap-4">
          <Entries calendar={calendar} zone={zone} />
          <UsingJobs
            filter={{ calendar: calendar.name }}
            nothing="No job that may still fire uses it."
            action={
              <Button
                small
                icon="plus"
                why={denied}
                onClick={() => void navigate({ to: '/jobs/new', search: { calendar: calendar.name } })}
              >
                New job with this calendar
              </Button>
            }
          />
          <Section title="JSON">
            <JsonView value={definition(calendar)} className="m-3" />
          </Section>
        </div>
      </div>
      <DeleteDialog name={calendar.name} open={deleting} onClose={() => setDeleting(false)} />
    </>
  )
}

/** Returns the fields that a user wrote, without those that the server adds. */
function definition(calendar: Calendar): Record<string, unknown> {
  return {
    timezone: calendar.timezone ?? 'UTC',
    ...(calendar.description ? { description: calendar.description } : {}),
    entries: calendar.entries,
  }
}

function NowNow({ calendar }: { calendar: Calendar }) {
  const { from } = periodOf('day', serverNow(), calendar.timezone ?? 'UTC')
  const times = useClosed(calendar, { from, to: from + NOW_DAYS * 86_400_000 })
  return times.data === undefined ? <Skeleton className="h-4 w-24" /> : <NowState times={times.data} />
}

function Entries({ calendar, zone }: { calendar: Calendar; zone: Zone }) {
  return (
    <Section
      title={
        <>
          Closed <span className="font-normal text-ink-3">{plural(calendar.entries.length, 'entry', 'entries')}</span>
        </>
      }
    >
      {calendar.entries.length === 0 ? (
        <p className="px-4 py-3 text-ink-2 text-sm">It has no entries, so it is always open.</p>
      ) : (
        <ol className="max-h-[28rem] divide-y overflow-auto">
          {calendar.entries.map((entry, index) => (
            <li key={index} className="grid gap-0.5 px-4 py-2 text-sm [overflow-wrap:anywhere]">
              {entry.reason !== undefined && entry.reason !== '' && (
                <span className="bidi-plain font-medium">{entry.reason}</span>
              )}
              <span className="text-ink-2">
                <EntryWords entry={entry} timezone={zone} />
              </span>
              {entry.cron != null && <code className="font-mono text-ink-3 text-xs">{entry.cron}</code>}
            </li>
          ))}
        </ol>
      )}
    </Section>
  )
}

const FEW = 12

/** The closed times of the shown period as a list. */
function ClosedList({ closed, zone, copy }: { closed: readonly Closed[]; zone: Zone; copy: React.ReactNode }) {
  const [all, setAll] = useState(false)
  const shown = all ? closed.slice(0, 2000) : closed.slice(0, FEW)
  return (
    <Section
      title={
        <>
          Closed times{' '}
          <span className="font-normal text-ink-3">
            {closed.length} in this period, times of {zone}
          </span>
        </>
      }
      aside={copy}
    >
      {closed.length === 0 ? (
        <p className="px-4 py-3 text-ink-2 text-sm">Open all the time.</p>
      ) : (
        <ol className="divide-y">
          {shown.map(item => (
            <li
              key={`${item.from}-${item.entry}`}
              className="grid min-h-9 items-center gap-x-4 px-4 py-1.5 text-sm sm:grid-cols-[21.5rem_4.5rem_minmax(0,1fr)]"
            >
              <span>
                {longTime(item.from, zone)} <span className="text-ink-3">until</span> {longTime(item.to, zone)}
              </span>
              <span className="text-ink-2">{duration(item.to - item.from)}</span>
              <span className="bidi-plain truncate text-ink-2" title={item.reason}>
                {item.reason}
              </span>
            </li>
          ))}
        </ol>
      )}
      {closed.length > shown.length && (
        <Button small look="quiet" className="m-2" onClick={() => setAll(true)}>
          Show all {plural(closed.length, 'closed time')}
        </Button>
      )}
    </Section>
  )
}

function DeleteDialog({ name, open, onClose }: { name: string; open: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const client = useQueryClient()
  const remove = async () => {
    await api.delete('/v1/calendars/{name}', { path: { name } })
    await client.invalidateQueries({ queryKey: keys.calendars('list') })
    toast.done(`Deleted calendar ${name}`)
    void navigate({ to: '/calendars' })
  }
  return (
    <ConfirmDialog
      open={open}
      onClose={onClose}
      title={`Delete calendar ${name}?`}
      action="Delete calendar"
      danger
      onConfirm={remove}
      commands={() => deleteCommands(name)}
    >
      <p>
        It cannot be taken back. A calendar that jobs use cannot be deleted: remove it from the{' '}
        <Link to="/calendars/$name" params={{ name }} onClick={onClose} className="text-accent underline">
          jobs that use it
        </Link>{' '}
        first.
      </p>
    </ConfirmDialog>
  )
}

function Waiting({ name }: { name: string }) {
  return (
    <>
      <PageHead title={name} name={name} detail={<Skeleton className="h-4 w-64" />} />
      <div className="grid gap-4 px-4 lg:px-6 xl:grid-cols-[minmax(0,1fr)_22rem] 2xl:grid-cols-[minmax(0,1fr)_30rem]">
        <Skeleton className="h-[40rem] w-full" />
        <Skeleton className="h-96 w-full" />
      </div>
    </>
  )
}
