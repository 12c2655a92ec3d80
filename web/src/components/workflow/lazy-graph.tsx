import type { ComponentProps } from 'react'
import { loadedLater } from '@/components/loaded-later'
import { Skeleton } from '@/components/notices'
import type { WorkflowGraph } from './graph'

const Graph = loadedLater(() => import('./graph').then(module => module.WorkflowGraph))

/** Maximum number of tasks of which a graph is shown. The boxes of more tasks are too small to distinguish. */
export const MAX_GRAPH_TASKS = 400

/** A graph whose library is loaded when the graph is first shown. */
export function LazyGraph(props: ComponentProps<typeof WorkflowGraph>) {
  if (props.tasks.length > MAX_GRAPH_TASKS)
    return (
      <p className="px-4 py-8 text-center text-ink-2 text-sm">
        {props.tasks.length.toLocaleString('en-US')} tasks are too many for a picture. The table shows all of them.
      </p>
    )
  return <Graph placeholder={<Skeleton className={props.className ?? 'h-96 w-full'} />} props={props} />
}
