import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type ReactNode, useCallback, useMemo } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { components } from '@/api/schema'
import { CopyAs } from '@/components/copy'
import { EmptyState, Loaded, Skeleton, SkeletonRows } from '@/components/notices'
import { PageHead, Section } from '@/layout/page'
import { serverNow, useNow } from '@/lib/clock'
import { zone } from '@/lib/settings'
import { useShortcuts } from '@/lib/shortcuts'
import { instant, plural, zoneName } from '@/lib/time'
import { IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Segments } from '@/ui/field'
import { Icon, type IconName } from '@/ui/icon'
import { BusyList } from './busy-list'
import { NeedChart } from './charts'
import { forecastCommands } from './commands'
import { HeatLegend, HeatMap } from './heat-map'
import { HourPanel } from './hour'
import { HourTable } from './hour-table'
import { bucketFor, type HourCell, hourAround, loadOf, loadText, spanText, weekOf } from './model'
import { type ForecastSearch, forecastSearch, type Measure } from './search'

type Forecast = components['schemas']['ForecastAnswer']

const route = getRouteApi('/shell/forecast')
const WEEK_MS = 7 * 86_400_000
const REFRESH_MS = 5 * 60_000

/** The forecast: the fires of the coming week, compared with the capacity of the workers. */
export function Page() {
  const search = forecastSearch(route.useSearch())
  const navigate = route.useNavigate()
  const shownZone = zone.use()
  const set = useCallback(
    (change: ForecastSearch) => void navigate({ search: before => ({ ...before, ...change }), replace: true }),
    [navigate],
  )
  const bucket = bucketFor(shownZone, serverNow(), serverNow() + WEEK_MS)
  const found = useQuery({
    queryKey: keys.forecast({ bucket }),
    queryFn: ({ signal }) => api.get('/v1/forecast', { query: { bucket }, signal }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  })
  const fires = found.data?.items.reduce((sum, item) => sum + item.fires, 0)
  return (
    <>
      <PageHead
        title="Forecast"
        name="Forecast"
        detail={
          found.data !== undefined &&
          `${plural(fires ?? 0, 'fire')} of ${plural(found.data.jobs, 'job')} in the coming week, ${plural(found.data.slots, 'slot')} now`
        }
        actions={<CopyAs commands={() => forecastCommands()} />}
      />
      <div className="grid min-w-0 gap-4 px-4 pb-8 lg:px-6">
        <Loaded query={found} skeleton={<Waiting />}>
          {forecast =>
            fires === 0 ? (
              <EmptyState
                icon="forecast"
                title="No job fires in the coming week"
                command={`timeball jobs create ping --http https://example.com/ping --cron '0 2 * * *'`}
              >
                Jobs with a schedule appear here: when they fire, how much work that is, and whether the workers can do
                it. Jobs that follow others are not part of the forecast.
              </EmptyState>
            ) : (
              <ForecastView forecast={forecast} search={search} set={set} />
            )
          }
        </Loaded>
      </div>
    </>
  )
}

function ForecastView({
  forecast,
  search,
  set,
}: {
  forecast: Forecast
  search: ForecastSearch
  set: (change: ForecastSearch) => void
}) {
  const shownZone = zone.use()
  const now = useNow()
  const week = useMemo(() => weekOf(forecast.items, shownZone), [forecast.items, shownZone])
  const cells = useMemo(() => [...week.cells.values()].filter(cell => cell.fires > 0), [week])
  const isMeasured = forecast.slots > 0 && cells.some(cell => cell.runSeconds > 0)
  const measure: Measure = search.show ?? (isMeasured ? 'load' : 'fires')
  const asTable = search.view === 'table'
  const at = instant(search.at)
  const chosen = at === null ? undefined : hourAround(at, shownZone).from
  const choose = (from: number) => set({ at: from === chosen ? undefined : new Date(from).toISOString() })
  useShortcuts('Forecast', [
    { keys: '1', label: 'Show the load', run: () => set({ show: 'load' }) },
    { keys: '2', label: 'Show fires', run: () => set({ show: 'fires' }) },
    { keys: 't', label: 'As table or picture', run: () => set({ view: asTable ? undefined : 'table' }) },
  ])
  const maxFires = Math.max(0, ...cells.map(cell => cell.fires))
  return (
    <>
      <Verdict forecast={forecast} cells={cells} isMeasured={isMeasured} onChoose={choose} />
      <div className="grid min-w-0 items-start gap-4 2xl:grid-cols-[minmax(0,1fr)_26rem] 3xl:grid-cols-[minmax(0,1fr)_34rem]">
        <div className="grid min-w-0 gap-4">
          <Section
            title="Coming week"
            className="overflow-clip"
            aside={
              <>
                <span className="hidden truncate text-ink-3 text-xs sm:inline">{zoneName(shownZone)}</span>
                <Segments
                  label="Measure"
                  value={measure}
                  onChange={show => set({ show })}
                  options={[
                    { value: 'load', label: 'Load' },
                    { value: 'fires', label: 'Fires' },
                  ]}
                />
                <IconButton
                  label={asTable ? 'Show as picture' : 'Show as table'}
                  icon={asTable ? 'overview' : 'table'}
                  aria-pressed={asTable}
                  onClick={() => set({ view: asTable ? undefined : 'table' })}
                />
              </>
            }
          >
            {asTable ? (
              <HourTable cells={cells} onChoose={cell => choose(cell.from)} />
            ) : (
              <div className="grid gap-3 p-3 sm:p-4">
                <HeatMap week={week} measure={measure} now={now} chosen={chosen} onChoose={cell => choose(cell.from)} />
                <HeatLegend measure={measure} max={maxFires} />
              </div>
            )}
          </Section>
          {chosen !== undefined && <HourPanel at={chosen} onClose={() => set({ at: undefined })} />}
          <Section title={isMeasured ? 'Slots needed against slots there are' : 'Fires over time'}>
            <div className="px-2 py-2">
              <NeedChart
                buckets={forecast.items}
                slots={forecast.slots}
                label="Slots needed over the coming week, against those that there are"
                onPick={bucket => choose(hourAround(Date.parse(bucket.from), shownZone).from)}
              />
            </div>
          </Section>
          <Notes notes={forecast.notes} />
        </div>
        <Section title="Busiest hours" className="overflow-clip">
          <BusyList label="Busiest hours" items={forecast.busiest} chosen={chosen} onChoose={choose} />
        </Section>
      </div>
    </>
  )
}

/** States in one sentence whether the capacity is sufficient. */
function Verdict({
  forecast,
  cells,
  isMeasured,
  onChoose,
}: {
  forecast: Forecast
  cells: readonly HourCell[]
  isMeasured: boolean
  onChoose: (from: number) => void
}) {
  const shownZone = zone.use()
  if (forecast.slots === 0)
    return (
      <Banner tone="bad" icon="state-lost">
        No worker is live, so nothing can run.{' '}
        <Link to="/workers" className="text-accent underline">
          Start one
        </Link>
        .
      </Banner>
    )
  if (!isMeasured)
    return (
      <Banner tone="plain" icon="info">
        None of these jobs has run in the last two weeks, so their work is not known. After the first runs, this page
        compares it with {plural(forecast.slots, 'slot')}.
      </Banner>
    )
  const over = cells.filter(cell => (loadOf(cell) ?? 0) > 1).toSorted((a, b) => (loadOf(b) ?? 0) - (loadOf(a) ?? 0))
  const [worst] = over
  if (worst === undefined)
    return (
      <Banner tone="plain" icon="state-ok">
        Every hour fits into {plural(forecast.slots, 'slot')}.
        {forecast.peak?.load != null && ` The busiest one needs ${loadText(forecast.peak.load)} of them.`}
      </Banner>
    )
  return (
    <Banner tone="bad" icon="state-late">
      <strong className="font-semibold">
        {over.length === 1 ? 'One hour needs' : `${over.length} hours need`} more than {plural(forecast.slots, 'slot')}
      </strong>
      , so runs start late. The worst:{' '}
      <button type="button" onClick={() => onChoose(worst.from)} className="text-accent underline">
        {spanText(worst.from, worst.to, shownZone)}
      </button>{' '}
      with {loadText(loadOf(worst))}. Move jobs to other hours, give them a window, or start more workers.
    </Banner>
  )
}

function Banner({ tone, icon, children }: { tone: 'bad' | 'plain'; icon: IconName; children: ReactNode }) {
  return (
    <p
      role="status"
      className={cx(
        'flex items-start gap-2.5 rounded-lg border px-4 py-2.5 text-sm',
        tone === 'bad' ? 'bg-bad-soft' : 'bg-surface',
      )}
    >
      <Icon
        name={icon}
        className={cx('mt-0.5 shrink-0', tone === 'bad' ? 'text-bad' : icon === 'state-ok' ? 'text-ok' : 'text-ink-3')}
      />
      <span className="min-w-0">{children}</span>
    </p>
  )
}

function Notes({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null
  return (
    <ul aria-label="Notes" className="grid gap-1 text-ink-3 text-xs">
      {notes.map(note => (
        <li key={note} className="flex items-start gap-1.5">
          <Icon name="info" size={12} className="mt-0.5 shrink-0" /> {note}
        </li>
      ))}
    </ul>
  )
}

function Waiting() {
  return (
    <>
      <Skeleton className="h-[42px] w-full rounded-lg" />
      <div className="grid gap-4 2xl:grid-cols-[minmax(0,1fr)_26rem] 3xl:grid-cols-[minmax(0,1fr)_34rem]">
        <div className="grid content-start gap-4">
          <Section title="Coming week">
            <div className="p-4">
              <Skeleton className="h-[330px] w-full" />
            </div>
          </Section>
          <Skeleton className="h-[217px] w-full rounded-lg" />
        </div>
        <Section title="Busiest hours">
          <SkeletonRows rows={6} height={92} />
        </Section>
      </div>
    </>
  )
}
