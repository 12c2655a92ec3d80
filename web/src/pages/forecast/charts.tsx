import { useMemo } from 'react'
import type { Series } from '@/components/chart'
import { LazyChart } from '@/components/lazy-chart'
import { type Bucket, slotsNeeded } from './model'

/** A chart of the mean number of slots that the fires of each bucket need, compared with the slots of the workers. */
export function NeedChart({
  buckets,
  slots,
  height = 160,
  label,
  bars = false,
  onPick,
}: {
  buckets: readonly Bucket[]
  slots: number
  height?: number
  label: string
  bars?: boolean
  onPick?: (bucket: Bucket) => void
}) {
  const times = useMemo(() => buckets.map(bucket => Date.parse(bucket.from)), [buckets])
  const series = useMemo<Series[]>(() => {
    const isMeasured = buckets.some(bucket => bucket.runSeconds > 0)
    const paths = bars ? ({ paths: 'bars' } as const) : ({ fill: true } as const)
    const fires: Series = { label: 'Fires', color: 'accent', values: buckets.map(bucket => bucket.fires), ...paths }
    if (!isMeasured) return [fires]
    return [
      { label: 'Slots needed', color: 'live', values: buckets.map(bucket => slotsNeeded(bucket)), ...paths },
      { label: 'Slots there are', color: 'bad', values: buckets.map(() => slots) },
    ]
  }, [buckets, slots, bars])
  return (
    <LazyChart
      times={times}
      series={series}
      height={height}
      label={label}
      format={value => String(Number(value.toFixed(1)))}
      {...(onPick === undefined
        ? {}
        : {
            onPick: (index: number) => {
              const bucket = buckets[index]
              if (bucket !== undefined) onPick(bucket)
            },
          })}
    />
  )
}
