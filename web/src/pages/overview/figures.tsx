import type { ReactNode } from 'react'
import type { Stats } from '@/api/types'
import { Skeleton } from '@/components/notices'
import { Sparkline } from '@/components/sparkline'
import { count, duration, percent, plural } from '@/lib/time'

/** Formats a rate in a number and a unit: `120/s`, `1.4/s`, `12/min`, `3/h`. */
export function rate(perSecond: number): [string, string] {
  if (perSecond >= 9.95) return [Math.round(perSecond).toLocaleString('en-US'), '/s']
  if (perSecond >= 0.95) return [perSecond.toFixed(1), '/s']
  if (perSecond * 60 >= 0.95) return [(perSecond * 60).toFixed(perSecond * 60 >= 9.95 ? 0 : 1), '/min']
  return [(perSecond * 3600).toFixed(0), '/h']
}

/** The row of figures above the now line. */
export function Figures({ stats }: { stats: Stats | undefined }) {
  if (stats === undefined) return <FigureSkeleton />
  const { totals, now, workers, buckets } = stats
  const [speed, unit] = rate(totals.runsPerSecond)
  const bad = totals.failed + totals.dead
  const waiting = now.queued + now.blocked + now.retrying
  return (
    <dl className="panel grid grid-cols-2 overflow-hidden md:grid-cols-3 xl:grid-cols-6">
      <Figure
        label="Throughput"
        value={speed}
        unit={unit}
        detail={plural(totals.finished, 'run')}
        line={
          <Sparkline
            label="Finished runs over time"
            values={buckets.map(bucket => bucket.finished)}
            tone="text-accent"
          />
        }
      />
      <Figure
        label="Success"
        value={totals.successRate === null ? '–' : percent(totals.successRate).replace(' %', '')}
        unit={totals.successRate === null ? '' : '%'}
        detail={bad === 0 ? 'none failed' : `${count(bad)} failed`}
        line={
          <Sparkline
            label="Failed runs over time"
            values={buckets.map(bucket => bucket.failed + bucket.dead)}
            tone={bad === 0 ? 'text-ok' : 'text-bad'}
            max={4}
          />
        }
      />
      <Figure
        label="Start lateness, p50"
        value={totals.lateP50Ms === null ? '–' : split(duration(totals.lateP50Ms))[0]}
        unit={totals.lateP50Ms === null ? '' : split(duration(totals.lateP50Ms))[1]}
        detail={totals.lateP99Ms === null ? 'nothing started' : `p99 ${duration(totals.lateP99Ms)}`}
        line={
          <Sparkline
            label="Start lateness p99 over time"
            values={buckets.map(bucket => bucket.lateP99Ms)}
            tone="text-late"
            max={100}
          />
        }
      />
      <Figure
        label="Waiting"
        value={count(waiting)}
        unit=""
        detail={
          now.oldestQueuedAgeMs === null
            ? `${count(now.scheduled)} scheduled`
            : `oldest for ${duration(now.oldestQueuedAgeMs)}`
        }
        line={
          <Parts
            parts={[
              [now.queued, 'queued', 'bg-live'],
              [now.blocked, 'blocked', 'bg-idle'],
              [now.retrying, 'retrying', 'bg-late'],
            ]}
          />
        }
      />
      <Figure
        label="Running"
        value={count(now.running)}
        unit={`of ${count(workers.slots)}`}
        detail={workers.live === 0 ? 'no worker is live' : plural(workers.live, 'worker')}
        line={<Share part={workers.slots === 0 ? 0 : workers.busy / workers.slots} label="Slots in use" />}
      />
      <Figure
        label="Jobs"
        value={count(now.jobs)}
        unit=""
        detail={now.pausedJobs === 0 ? 'none paused' : `${count(now.pausedJobs)} paused`}
        line={
          <p className="truncate text-xs text-ink-2">
            {now.deadLetters === 0 ? 'no dead letters' : plural(now.deadLetters, 'dead letter')}
          </p>
        }
      />
    </dl>
  )
}

function split(text: string): [string, string] {
  const at = text.indexOf(' ')
  return [text.slice(0, at), text.slice(at + 1)]
}

function Figure({
  label,
  value,
  unit,
  detail,
  line,
}: {
  label: string
  value: string
  unit: string
  detail: string
  line: ReactNode
}) {
  return (
    <div className="-mr-px -mb-px min-w-0 border-r border-b px-4 py-3">
      <dt className="label truncate">{label}</dt>
      <dd className="mt-0.5 flex min-w-0 items-baseline gap-1.5">
        <span className="font-semibold text-2xl tracking-tight">{value}</span>
        <span className="text-ink-2 text-sm">{unit}</span>
        <span className="ml-auto hidden truncate pl-2 text-ink-2 text-xs sm:block">{detail}</span>
      </dd>
      <dd className="mt-1 flex h-6 items-end">{line}</dd>
      <dd className="mt-1 truncate text-ink-2 text-xs sm:hidden">{detail}</dd>
    </div>
  )
}

function Share({ part, label }: { part: number; label: string }) {
  const value = Math.min(1, Math.max(0, part))
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(value * 100)}
      className="mb-1.5 h-1.5 w-full overflow-hidden rounded-full bg-hover"
    >
      <div style={{ width: `${value * 100}%` }} className="h-full rounded-full bg-live transition-[width]" />
    </div>
  )
}

function Parts({ parts }: { parts: readonly (readonly [number, string, string])[] }) {
  const total = parts.reduce((sum, [number]) => sum + number, 0)
  return (
    <p className="w-full truncate text-ink-2 text-xs">
      {total === 0
        ? 'nothing waits'
        : parts
            .filter(([number]) => number > 0)
            .map(([number, name, color]) => (
              <span key={name} className="mr-2.5">
                <span aria-hidden="true" className={`mr-1 mb-px inline-block size-1.5 rounded-full ${color}`} />
                {count(number)} {name}
              </span>
            ))}
    </p>
  )
}

function FigureSkeleton() {
  return (
    <div className="panel grid grid-cols-2 overflow-hidden md:grid-cols-3 xl:grid-cols-6" aria-hidden="true">
      {['a', 'b', 'c', 'd', 'e', 'f'].map(name => (
        <div
          key={name}
          className="-mr-px -mb-px grid h-[118px] content-between sm:h-[97px] border-r border-b px-4 py-3"
        >
          <Skeleton className="h-3 w-20" />
          <Skeleton className="h-6 w-24" />
          <Skeleton className="h-2 w-full" />
        </div>
      ))}
    </div>
  )
}
