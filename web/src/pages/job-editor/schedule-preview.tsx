import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api, request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { components } from '@/api/schema'
import { Skeleton } from '@/components/notices'
import { Countdown, RelativeTime } from '@/components/time'
import { count, plural } from '@/lib/time'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'
import type { Editor } from './editor'
import type { JobDocument } from './model/document'
import { addedLoad } from './model/load'

type Preview = components['schemas']['PreviewAnswer']
type Fire = components['schemas']['PreviewFire']

const SHOWN_FIRES = 10
const LOAD_HOURS = 48
/** Maximum number of fires that the API lists. */
const MAX_FIRES = 1000
const PREVIEW_FIELDS = ['schedule', 'name', 'calendars', 'excluded', 'startAt', 'endAt', 'maxRuns'] as const

/**
 * Returns a value after it has not changed for `ms` milliseconds, so that typing causes one request per pause and not
 * one per key.
 */
export function useSettled<T>(value: T, ms = 300): T {
  const [settled, setSettled] = useState(value)
  const text = JSON.stringify(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(JSON.parse(text) as T), ms)
    return () => clearTimeout(timer)
  }, [text, ms])
  return settled
}

function previewBody(document: JobDocument): Record<string, unknown> {
  return Object.fromEntries(
    PREVIEW_FIELDS.filter(name => document[name] !== undefined).map(name => [name, document[name]]),
  )
}

function usePreview(document: JobDocument, fires: number, enabled = true) {
  const body = useSettled(previewBody(document))
  return useQuery({
    queryKey: ['preview', body, fires],
    queryFn: ({ signal }) =>
      request<Preview>('POST', '/v1/schedules:preview', { body: { ...body, count: fires }, signal }),
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 30_000,
    enabled: enabled && body.schedule !== undefined,
  })
}

const MARKS: Record<NonNullable<Fire['mark']>, string> = {
  dst_gap: 'Clocks go forward',
  dst_overlap: 'Clocks go back',
  excluded: 'Calendar closed',
  next_open: 'Moved to the opening',
}

/** Shows the schedule in words, its next fires in its zone, and its warnings. */
export function SchedulePreview({ editor }: { editor: Editor }) {
  const type = editor.string('/schedule/type')
  const preview = usePreview(editor.document, SHOWN_FIRES, type !== 'follow' && type !== 'immediate')
  if (type === 'follow' || type === 'immediate' || type === '') return null
  if (preview.error instanceof ApiError) {
    const text = preview.error.problem.errors?.map(item => item.detail).join(' ') ?? preview.error.message
    return (
      <p role="status" className="flex items-start gap-2 rounded-md border bg-bad-soft px-3 py-2 text-sm">
        <Icon name="state-bad" className="mt-0.5 shrink-0 text-bad" />
        <span className="min-w-0 [overflow-wrap:anywhere]">{text}</span>
      </p>
    )
  }
  const answer = preview.data
  return (
    <div className={cx('grid grid-cols-1 gap-3', preview.isPlaceholderData && 'opacity-60')}>
      <div role="status" className="min-h-6 font-medium">
        {answer === undefined ? <Skeleton className="h-5 w-64" /> : answer.description}
      </div>
      {answer?.warnings.map(warning => (
        <p key={warning} className="flex items-start gap-2 rounded-md bg-late-soft px-3 py-2 text-sm">
          <Icon name="warning" className="mt-0.5 shrink-0 text-late" />
          <span className="min-w-0 first-letter:uppercase [overflow-wrap:anywhere]">{warning}</span>
        </p>
      ))}
      <div>
        <h3 className="label mb-1">Next fires</h3>
        {answer === undefined ? (
          <Skeleton className="h-60 w-full" />
        ) : answer.fires.length === 0 ? (
          <p className="text-ink-2 text-sm">This schedule has no fires to come.</p>
        ) : (
          <ol className="grid gap-x-6 xl:grid-flow-col xl:grid-cols-2 xl:grid-rows-5">
            {answer.fires.map((fire, at) => (
              <FireRow key={fire.at + at} fire={fire} first={at === 0} />
            ))}
          </ol>
        )}
      </div>
    </div>
  )
}

const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']

/**
 * Splits a time such as `2027-03-28T03:00:00+02:00` into weekday with date, time and offset, in the zone of the
 * schedule and not of the browser.
 */
function localParts(local: string): { day: string; time: string; offset: string } {
  const match = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(.*)$/.exec(local)
  if (match === null) return { day: local, time: '', offset: '' }
  const [, date = '', time = '', offset = ''] = match
  const weekday = WEEKDAYS[new Date(`${date}T00:00:00Z`).getUTCDay()] ?? ''
  return { day: `${weekday} ${date}`, time: time.endsWith(':00') ? time.slice(0, 5) : time, offset }
}

function FireRow({ fire, first }: { fire: Fire; first: boolean }) {
  const { day, time, offset } = localParts(fire.local)
  const moved = fire.mark === 'dst_gap' || fire.mark === 'dst_overlap'
  return (
    <li className="border-b py-1 text-sm last:border-0 xl:last:border-b">
      <div className="flex items-baseline gap-2">
        <span className="w-28 shrink-0 whitespace-nowrap text-ink-2">{day}</span>
        <span className={cx('font-medium', fire.mark === 'excluded' && 'text-ink-3 line-through')}>{time}</span>
        <span className="text-ink-3 text-xs">{offset === 'Z' ? 'UTC' : offset}</span>
        <span className="flex-1" />
        <span className="text-ink-3 text-xs">{first ? <Countdown at={fire.at} /> : <RelativeTime at={fire.at} />}</span>
      </div>
      {fire.mark !== undefined && (
        <p className={cx('flex items-center gap-1.5 text-xs', moved ? 'text-ink' : 'text-ink-2')}>
          <Icon name={moved ? 'state-late' : 'calendar'} size={12} className={moved ? 'text-late' : undefined} />
          {MARKS[fire.mark]}
          {fire.note !== undefined && `: ${fire.note}`}
        </p>
      )}
    </li>
  )
}

/** Shows by hour how many fires the schedule adds to the planned ones. */
export function LoadPreview({ editor, saved }: { editor: Editor; saved: boolean }) {
  const type = editor.string('/schedule/type')
  const repeats = type === 'cron' || type === 'interval' || type === 'window'
  const preview = usePreview(editor.document, MAX_FIRES, repeats)
  const forecast = useQuery({
    queryKey: keys.forecast({ bucket: '1h' }),
    queryFn: ({ signal }) => api.get('/v1/forecast', { query: { bucket: '1h' }, signal }),
    staleTime: 60_000,
    enabled: repeats,
  })
  if (!repeats || preview.data === undefined || preview.error !== null || forecast.data === undefined) return null
  const fires = preview.data.fires.filter(fire => fire.mark !== 'excluded').map(fire => fire.at)
  const added = addedLoad(forecast.data.items, fires, LOAD_HOURS, preview.data.fires.length === MAX_FIRES)
  if (added.peak === null) return null
  const most = Math.max(1, added.peak.before + added.peak.added)
  const width = 100 / added.buckets.length
  return (
    <div className="grid gap-1.5">
      <h3 className="label">Load that it adds</h3>
      <svg
        viewBox="0 0 100 24"
        preserveAspectRatio="none"
        className="h-14 w-full rounded-sm border-b bg-sunken"
        role="img"
        aria-label={`Fires per hour for ${LOAD_HOURS} hours. At most ${most}.`}
      >
        {added.buckets.map((bucket, index) => {
          const before = (bucket.before / most) * 23
          const more = (bucket.added / most) * 23
          const x = index * width
          return (
            <g key={bucket.at}>
              <rect x={x} y={24 - before} width={width * 0.8} height={before} className="fill-line-strong" />
              <rect x={x} y={24 - before - more} width={width * 0.8} height={more} className="fill-accent" />
            </g>
          )
        })}
      </svg>
      <p className="text-ink-2 text-xs">
        {added.cut ? 'More than ' : ''}
        {plural(added.total, 'fire')} in the next {LOAD_HOURS} hours{' '}
        <span className="inline-block size-2 rounded-[2px] bg-accent" aria-hidden="true" />, besides those of other jobs{' '}
        <span className="inline-block size-2 rounded-[2px] bg-line-strong" aria-hidden="true" />. The busiest hour has{' '}
        {count(added.peak.before + added.peak.added)} instead of {count(added.peak.before)}.
        {saved && ' The saved version of this job counts among the others.'}
      </p>
    </div>
  )
}
