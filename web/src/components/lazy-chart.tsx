import type { ComponentProps } from 'react'
import { loadedLater } from '@/components/loaded-later'
import { Skeleton } from '@/components/notices'
import type Chart from './chart'

const Loaded = loadedLater(() => import('./chart').then(module => module.default))

/**
 * A chart whose library (uPlot) is loaded when the chart is first shown. In the first load it would be a fifth of all
 * bytes.
 */
export function LazyChart(props: ComponentProps<typeof Chart>) {
  return (
    <Loaded
      placeholder={
        <div style={{ height: props.height ?? 160 }} className="p-1">
          <Skeleton className="h-full w-full" />
        </div>
      }
      props={props}
    />
  )
}
