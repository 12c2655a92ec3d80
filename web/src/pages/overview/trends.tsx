import { useMemo } from 'react'
import type { Stats } from '@/api/types'
import type { Series } from '@/components/chart'
import { LazyChart } from '@/components/lazy-chart'
import { Section } from '@/layout/page'
import { count, duration, instant } from '@/lib/time'
import { useWindowHeight } from '@/lib/window-height'

/** Height of the rest of the page, beside which the charts fill a tall window. */
const OTHER_PX = 1080
const MIN_HEIGHT = 160
const MAX_HEIGHT = 340

/** Charts of the same statistics as the figures: how many runs ended and failed, and how late runs started. */
export function Trends({ stats }: { stats: Stats }) {
  const height = Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, useWindowHeight() - OTHER_PX))
  const { buckets } = stats
  const times = useMemo(() => buckets.map(bucket => instant(bucket.at) ?? 0), [buckets])
  const ends = useMemo(
    (): Series[] => [
      { label: 'Ended', color: 'ok', values: buckets.map(bucket => bucket.finished), paths: 'bars' },
      { label: 'Failed', color: 'bad', values: buckets.map(bucket => bucket.failed + bucket.dead), paths: 'bars' },
    ],
    [buckets],
  )
  const lateness = useMemo(
    (): Series[] => [
      { label: 'p99', color: 'late', values: buckets.map(bucket => bucket.lateP99Ms), fill: true },
      { label: 'p50', color: 'live', values: buckets.map(bucket => bucket.lateP50Ms) },
    ],
    [buckets],
  )
  if (stats.totals.finished === 0) return null
  return (
    <div className="hidden min-w-0 gap-4 md:grid md:grid-cols-2">
      <Section title="Runs" aside={<Key series={ends} />}>
        <div className="p-2">
          <LazyChart height={height} times={times} series={ends} format={whole} label="Runs that ended, over time" />
        </div>
      </Section>
      <Section title="Start lateness" aside={<Key series={lateness} />}>
        <div className="p-2">
          <LazyChart
            height={height}
            times={times}
            series={lateness}
            format={duration}
            label="Start lateness, p50 and p99, over time"
          />
        </div>
      </Section>
    </div>
  )
}

/** The axis of a chart may have steps of half a run, which get no label. */
function whole(value: number): string {
  return Number.isInteger(value) ? count(value) : ''
}

const FILLS: Readonly<Record<string, string>> = { ok: 'bg-ok', bad: 'bg-bad', late: 'bg-late', live: 'bg-live' }

function Key({ series }: { series: readonly Series[] }) {
  return (
    <span className="flex gap-3 text-ink-2 text-xs">
      {series.map(item => (
        <span key={item.label} className="inline-flex items-center gap-1.5">
          <span aria-hidden="true" className={`size-2 rounded-sm ${FILLS[item.color] ?? 'bg-idle'}`} />
          {item.label}
        </span>
      ))}
    </span>
  )
}
