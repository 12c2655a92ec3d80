import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useMemo, useRef } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { StatsWindow } from '@/api/types'
import { EmptyState, ErrorNotice, Skeleton } from '@/components/notices'
import { useEvents } from '@/events/hub'
import { learnServerTime, serverNow, useNow } from '@/lib/clock'
import { MARK_NAMES, MARKS, TONE_TEXT } from '@/lib/states'
import { count, instant, plural } from '@/lib/time'
import { Icon } from '@/ui/icon'
import { NowLineCanvas, type Redraw } from './canvas'
import { apply, laneCounts, type Model, modelOf, noCounts } from './model'
import { NowLineTable } from './table'

export const WINDOW_MS: Record<StatsWindow, number> = { '5m': 300_000, '1h': 3_600_000, '24h': 86_400_000 }
const MAX_LANES = 30
/** The lanes are fetched with this much of the future, which becomes visible before they are fetched again. */
const AHEAD_MS = 90_000
const REFRESH_MS = 60_000
/** The delay before the lanes are fetched again after an event that they cannot show. */
const STALE_DELAY_MS = 2000

export type LaneChoice = 'auto' | 'job' | 'tag'

export function NowLine({
  window,
  by,
  q,
  asTable,
}: {
  window: StatsWindow
  by: LaneChoice
  q: string | undefined
  asTable: boolean
}) {
  const span = WINDOW_MS[window]
  const redraw = useRef<Redraw>({ request: () => {} })
  const timeline = useQuery({
    queryKey: keys.timeline({ window, by, q }),
    queryFn: async ({ signal }) => {
      const now = serverNow()
      const sentAt = Date.now()
      const answer = await api.get('/v1/timeline', {
        signal,
        query: {
          from: new Date(now - span * 1.1).toISOString(),
          to: new Date(now + span + AHEAD_MS).toISOString(),
          by,
          lanes: MAX_LANES,
          q,
        },
      })
      const told = instant(answer.now)
      if (told !== null) learnServerTime(told, sentAt, Date.now())
      return answer
    },
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
    structuralSharing: false,
  })
  const model = useMemo(() => (timeline.data === undefined ? null : modelOf(timeline.data)), [timeline.data])
  useLive(model, redraw, timeline.refetch)

  if (model === null)
    return timeline.error ? (
      <ErrorNotice
        error={timeline.error}
        onRetry={() => void timeline.refetch()}
        className="m-4"
        title="The now line cannot be shown"
      />
    ) : (
      <LaneSkeleton />
    )
  if (model.lanes.length === 0)
    return q === undefined ? (
      <EmptyState icon="jobs" title="No jobs yet" command="timeball jobs create hello --shell 'echo hello' --every 10s">
        Create a job: it appears here, with its coming fires to the right of the line.
      </EmptyState>
    ) : (
      <EmptyState icon="search" title={`No ${by === 'tag' ? 'tag' : 'job'} has “${q}” in its name`} />
    )
  return (
    <>
      <Legend model={model} />
      {asTable ? <NowLineTable model={model} /> : <NowLineCanvas model={model} span={span} redraw={redraw} />}
    </>
  )
}

/** Applies events to the model between two fetches. */
function useLive(model: Model | null, redraw: { current: Redraw }, refetch: () => unknown): void {
  const stale = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(() => () => clearTimeout(stale.current), [])
  useEvents(batch => {
    if (model === null || batch.reset) return
    let changed = false
    let isStale = false
    for (const event of batch.events) {
      const effect = apply(model, event)
      changed ||= effect === 'changed'
      isStale ||= effect === 'stale'
    }
    if (changed) redraw.current.request()
    if (isStale && stale.current === undefined && !document.hidden)
      stale.current = setTimeout(() => {
        stale.current = undefined
        refetch()
      }, STALE_DELAY_MS)
  })
}

function Legend({ model }: { model: Model }) {
  useNow()
  const totals = noCounts()
  for (const lane of model.lanes) {
    const counts = laneCounts(lane)
    for (const mark of MARK_NAMES) totals[mark] += counts[mark]
  }
  return (
    <div className="flex min-h-9 flex-wrap items-center gap-x-5 gap-y-1 border-b px-4 py-1.5 text-ink-2 text-xs">
      {MARK_NAMES.map(mark => (
        <span key={mark} title={MARKS[mark].meaning} className="inline-flex items-center gap-1.5">
          <Icon name={MARKS[mark].icon} size={13} className={TONE_TEXT[MARKS[mark].tone]} />
          {MARKS[mark].label}
          <span className={totals[mark] > 0 ? 'font-medium text-ink' : 'text-ink-3'}>{count(totals[mark])}</span>
        </span>
      ))}
      <span className="flex-1" />
      {model.hiddenLanes > 0 && <span>and {plural(model.hiddenLanes, model.by)} more without a lane</span>}
    </div>
  )
}

function LaneSkeleton() {
  return (
    <div aria-hidden="true" className="grid gap-3 px-4 py-5">
      {Array.from({ length: 8 }, (_, at) => (
        <div key={`lane-${at + 1}`} className="flex items-center gap-6">
          <Skeleton className="h-3.5 w-40" />
          <Skeleton className="h-3.5 flex-1" />
        </div>
      ))}
    </div>
  )
}
