import { lazy, Suspense, useMemo } from 'react'
import type { Series } from '@/components/chart'
import { Skeleton } from '@/components/notices'
import { type Bucket, slotsNeeded } from './model'

const Chart = lazy(() => import('@/components/chart'))

/** The slots that the fires need, on average over each bucket, against those that there are. */
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
    <Suspense
      fallback={
        <div style={{ height }} className="p-1">
          <Skeleton className="h-full w-full" />
        </div>
      }
    >
      <Chart
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
    </Suspense>
  )
}
