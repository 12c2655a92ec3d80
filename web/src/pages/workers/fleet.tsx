import { type ReactNode, useMemo } from 'react'
import type { Series } from '@/components/chart'
import { LazyChart } from '@/components/lazy-chart'
import { Skeleton } from '@/components/notices'
import { RelativeTime } from '@/components/time'
import { Section } from '@/layout/page'
import { count, percent } from '@/lib/time'
import { type Fleet, memory } from './model'
import { useSamples } from './samples'
import { Usage } from './usage'

const CHART_HEIGHT = 132

/** The capacity of all workers, the used part of it, and a chart of this part since the page was opened. */
export function FleetSummary({ fleet }: { fleet: Fleet | undefined }) {
  return (
    <div className="grid min-w-0 gap-4 lg:grid-cols-[minmax(20rem,2fr)_minmax(0,3fr)]">
      <dl className="panel grid grid-cols-2 grid-rows-2 overflow-hidden">
        <Figure
          label="Workers"
          value={fleet && count(fleet.live + fleet.draining)}
          unit=""
          detail={fleet && workersText(fleet)}
        />
        <Figure
          label="Slots in use"
          value={fleet && count(fleet.busy)}
          unit={fleet && `of ${count(fleet.slots)}`}
          detail={fleet && (fleet.slots === 0 ? 'no slots' : `${percent(fleet.busy / fleet.slots, 0)} used`)}
          bar={fleet && <Usage used={fleet.busy} total={fleet.slots} label="Slots in use" className="w-full" />}
        />
        <Figure
          label="CPU asked for"
          value={fleet && number(fleet.cpuUsed)}
          unit={fleet && (fleet.cpu === null ? 'no limit' : `of ${number(fleet.cpu)}`)}
          detail="by runs with resources"
          bar={fleet && <Share used={fleet.cpuUsed} total={fleet.cpu} label="CPUs that runs ask for" />}
        />
        <Figure
          label="Memory asked for"
          value={fleet && memory(fleet.memoryUsed).split(' ')[0]}
          unit={
            fleet &&
            `${memory(fleet.memoryUsed).split(' ')[1]} ${fleet.memoryMb === null ? '' : `of ${memory(fleet.memoryMb)}`}`
          }
          detail="by runs with resources"
          bar={fleet && <Share used={fleet.memoryUsed} total={fleet.memoryMb} label="Memory that runs ask for" />}
        />
      </dl>
      <Section title="Slots in use" aside={<Since />}>
        <div className="px-2 py-2">
          <History />
        </div>
      </Section>
    </div>
  )
}

function number(value: number): string {
  return Number(value.toFixed(1)).toLocaleString('en-US')
}

function workersText(fleet: Fleet): string {
  const parts = [
    fleet.draining > 0 && `${count(fleet.draining)} draining`,
    fleet.lost > 0 && `${count(fleet.lost)} lost`,
  ].filter(Boolean)
  if (parts.length > 0) return parts.join(', ')
  return fleet.live === 0 ? 'none is live' : 'all are live'
}

function Share({ used, total, label }: { used: number; total: number | null; label: string }) {
  return total === null ? null : <Usage used={used + 0.001} total={total} label={label} className="w-full" />
}

function Figure({
  label,
  value,
  unit,
  detail,
  bar,
}: {
  label: string
  value: string | undefined
  unit: string | undefined
  detail: string | undefined
  bar?: ReactNode
}) {
  return (
    <div className="-mr-px -mb-px grid min-h-[93px] min-w-0 content-between border-r border-b px-4 py-3">
      <dt className="label truncate">{label}</dt>
      <dd className="flex min-w-0 items-baseline gap-1.5">
        {value === undefined ? (
          <Skeleton className="h-7 w-20" />
        ) : (
          <>
            <span className="font-semibold text-2xl tracking-tight">{value}</span>
            <span className="truncate text-ink-2 text-sm">{unit}</span>
          </>
        )}
      </dd>
      <dd className="flex h-4 min-w-0 items-center gap-2 text-ink-2 text-xs">
        {bar ?? <span className="truncate">{value === undefined ? '' : detail}</span>}
      </dd>
    </div>
  )
}

function Since() {
  const first = useSamples()[0]
  return (
    <span className="truncate text-ink-3 text-xs">
      {first === undefined ? (
        'since this page was opened'
      ) : (
        <>
          since this page was opened, <RelativeTime at={first.at} />
        </>
      )}
    </span>
  )
}

function History() {
  const samples = useSamples()
  const times = useMemo(() => samples.map(sample => sample.at), [samples])
  const series = useMemo<Series[]>(
    () => [
      { label: 'In use', color: 'live', fill: true, values: samples.map(sample => sample.busy) },
      { label: 'Slots', color: 'ink-3', values: samples.map(sample => sample.slots) },
    ],
    [samples],
  )
  if (samples.length < 2)
    return (
      <p
        style={{ height: CHART_HEIGHT }}
        className="flex items-center justify-center px-4 text-center text-ink-3 text-sm"
      >
        The line grows while this page is open.
      </p>
    )
  const last = samples.at(-1)
  return (
    <LazyChart
      times={times}
      series={series}
      height={CHART_HEIGHT}
      label={`Slots in use over time; now ${last?.busy ?? 0} of ${last?.slots ?? 0}`}
      format={value => (Number.isInteger(value) ? String(value) : '')}
    />
  )
}
