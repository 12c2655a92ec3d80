import { lazy, Suspense } from 'react'
import { Skeleton } from '@/components/notices'
import type { GraphTask } from './graph'

const Graph = lazy(() => import('./graph').then(module => ({ default: module.WorkflowGraph })))

/** Boxes of this many tasks can still be told apart on a screen. */
export const MAX_GRAPH_TASKS = 400

/** The graph, with its library loaded when it is first shown. */
export function LazyGraph(props: {
  tasks: readonly GraphTask[]
  chosen?: string | undefined
  onChoose?: (name: string) => void
  className?: string
}) {
  if (props.tasks.length > MAX_GRAPH_TASKS)
    return (
      <p className="px-4 py-8 text-center text-ink-2 text-sm">
        {props.tasks.length.toLocaleString('en-US')} tasks are too many for a picture. The table shows all of them.
      </p>
    )
  return (
    <Suspense fallback={<Skeleton className={props.className ?? 'h-96 w-full'} />}>
      <Graph {...props} />
    </Suspense>
  )
}
