import { useMemo } from 'react'
import { ErrorNotice, Skeleton } from '@/components/notices'
import { serverNow } from '@/lib/clock'
import { partsOf, plural, type Zone } from '@/lib/time'
import { Button, IconButton } from '@/ui/button'
import { Segments } from '@/ui/field'
import { type Period, periodOf } from '../job/ledger/periods'
import { monthName, monthOf, yearOf, yearPeriod } from './closed'
import { MonthPicture, YearPicture } from './picture'
import type { CalendarBody, ClosedTimes } from './use-closed'
import { useClosed } from './use-closed'

export type Level = 'month' | 'year'
export type Shown = { level: Level; at: number }

export function periodOfView(shown: Shown, zone: Zone, step = 0): Period {
  return shown.level === 'year' ? yearPeriod(shown.at, zone, step) : periodOf('month', shown.at, zone, step)
}

/** The open and closed times of a month or a year, with buttons for other periods. */
export function CalendarView({
  calendar,
  shown,
  onShow,
  aside,
  children,
}: {
  calendar: CalendarBody
  shown: Shown
  onShow: (shown: Shown) => void
  aside?: React.ReactNode
  /** Renders the content below the picture, for the same period. */
  children?: (times: ClosedTimes, period: Period) => React.ReactNode
}) {
  const zone = calendar.timezone ?? 'UTC'
  const period = periodOfView(shown, zone)
  const times = useClosed(calendar, period)
  const go = (step: number) => onShow({ ...shown, at: periodOfView(shown, zone, step).from })
  const year = partsOf(period.from, zone).year
  const title = shown.level === 'year' ? year : `${monthName(period.from, zone)} ${year}`
  return (
    <>
      <section className="panel min-w-0" aria-label="Open and closed time">
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1.5 border-b px-3 py-1.5">
          <IconButton label={`Previous ${shown.level}`} icon="left" onClick={() => go(-1)} />
          <h2 className="min-w-32 text-center font-semibold text-sm">{title}</h2>
          <IconButton label={`Next ${shown.level}`} icon="right" onClick={() => go(1)} />
          <Button small look="quiet" onClick={() => onShow({ ...shown, at: serverNow() })}>
            Today
          </Button>
          <span className="flex-1" />
          <Legend />
          <Segments
            label="Period"
            value={shown.level}
            onChange={level => onShow({ ...shown, level })}
            options={[
              { value: 'month', label: 'Month' },
              { value: 'year', label: 'Year' },
            ]}
          />
          {aside}
        </div>
        {times.data !== undefined ? (
          <>
            <Picture times={times.data} shown={shown} zone={zone} onShow={onShow} />
            {times.data.to < period.to && (
              <p className="border-t px-4 py-2 text-late-ink text-sm">
                This calendar has more closed times than one answer holds. The picture ends at{' '}
                {plural(times.data.closed.length, 'closed time')}: choose a month.
              </p>
            )}
          </>
        ) : times.error !== null ? (
          <ErrorNotice error={times.error} onRetry={() => void times.refetch()} className="m-4" />
        ) : (
          <Skeleton className="m-4 h-[32rem] w-auto" />
        )}
      </section>
      {times.data !== undefined && children?.(times.data, period)}
    </>
  )
}

function Picture({
  times,
  shown,
  zone,
  onShow,
}: {
  times: ClosedTimes
  shown: Shown
  zone: Zone
  onShow: (shown: Shown) => void
}) {
  const now = serverNow()
  const year = useMemo(
    () => (shown.level === 'year' ? yearOf(shown.at, zone, times.closed) : null),
    [shown, zone, times.closed],
  )
  if (year !== null)
    return <YearPicture months={year} zone={zone} now={now} onOpen={at => onShow({ level: 'month', at })} />
  return <MonthPicture month={monthOf(shown.at, zone, times.closed)} zone={zone} now={now} />
}

function Legend() {
  return (
    <span aria-hidden="true" className="hidden items-center gap-3 pr-2 text-2xs text-ink-2 md:flex">
      <span className="flex items-center gap-1">
        <span className="size-3 rounded-[2px] border bg-hover" /> open
      </span>
      <span className="flex items-center gap-1">
        <span className="size-3 rounded-[2px] bg-ink-3" /> closed
      </span>
    </span>
  )
}
