import {
  type Edge,
  Handle,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
} from '@xyflow/react'
import { useEffect, useMemo, useRef } from 'react'
import './graph.css'
import { useWidth } from '@/components/data-table'
import { Duration } from '@/components/time'
import { TONE_FILL, TONE_TEXT } from '@/lib/states'
import { IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'
import { arrowsOf, fitTasks, type LayoutTask, NODE_HEIGHT, NODE_WIDTH } from './layout'
import { taskEnded, taskLook } from './states'

export type GraphTask = LayoutTask & {
  /** The status of the task; null if the workflow is not shown as a run. */
  status: string | null
  detail?: string
  startTime?: string | null
  endTime?: string | null
  instances?: { total: number; open: number } | null
}

type TaskData = { task: GraphTask; chosen: boolean; down: boolean }
type TaskNode = Node<TaskData, 'task'>

const NODE_TYPES = { task: TaskBox }
const MAX_HEIGHT = 560
const MIN_HEIGHT = 180
/** Space below the boxes, so that the buttons cover no box. */
const CONTROLS_HEIGHT = 28

/**
 * The graph of a workflow: tasks as boxes in the colour of their state, needs as arrows. Its code is loaded when a page
 * shows it.
 */
export function WorkflowGraph({
  tasks,
  chosen,
  onChoose,
  className,
}: {
  tasks: readonly GraphTask[]
  chosen?: string | undefined
  onChoose?: (name: string) => void
  className?: string
}) {
  return (
    <ReactFlowProvider>
      <Picture tasks={tasks} chosen={chosen} onChoose={onChoose} className={className} />
    </ReactFlowProvider>
  )
}

function Picture({
  tasks,
  chosen,
  onChoose,
  className,
}: {
  tasks: readonly GraphTask[]
  chosen: string | undefined
  onChoose: ((name: string) => void) | undefined
  className: string | undefined
}) {
  const box = useRef<HTMLElement>(null)
  const width = useWidth(box)
  const { fitView, zoomIn, zoomOut } = useReactFlow()
  const shape = JSON.stringify(tasks.map(task => [task.name, task.needs]))
  // The layout depends on the tasks, their needs and the width only, so a change of state never moves a box.
  const picture = useMemo(() => {
    const list = (JSON.parse(shape) as [string, string[]][]).map(([name, needs]) => ({ name, needs }))
    return fitTasks(list, width || 1000, MAX_HEIGHT)
  }, [shape, width])
  const down = picture.direction === 'down'
  const places = useMemo(() => new Map(picture.places.map(place => [place.name, place])), [picture])
  const nodes: TaskNode[] = tasks.map(task => ({
    id: task.name,
    type: 'task',
    position: places.get(task.name) ?? { x: 0, y: 0 },
    data: { task, chosen: task.name === chosen, down },
    width: NODE_WIDTH,
    height: NODE_HEIGHT,
    draggable: false,
    connectable: false,
    ariaLabel: `${task.name}${task.status === null ? '' : `, ${taskLook(task.status).label}`}`,
  }))
  const byName = new Map(tasks.map(task => [task.name, task]))
  const edges: Edge[] = arrowsOf(tasks).map(({ from, to }) => {
    const status = byName.get(to)?.status ?? null
    const flowing = status !== null && status !== 'waiting' && !taskEnded(status)
    return {
      id: `${from} ${to}`,
      source: from,
      target: to,
      className: flowing ? 'flowing' : undefined,
      animated: flowing,
      focusable: false,
      selectable: false,
    }
  })
  const whole = useMemo(() => ({ padding: '24px', maxZoom: 1, minZoom: 0.1 }) as const, [])
  useEffect(() => {
    if (width > 0 && places.size > 0) requestAnimationFrame(() => void fitView(whole))
  }, [width, places, fitView, whole])

  return (
    <section
      ref={box}
      aria-label="Graph of the tasks"
      style={{ height: Math.max(MIN_HEIGHT, picture.height + CONTROLS_HEIGHT) }}
      className={cx('workflow-graph relative', className)}
    >
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        onNodeClick={(_, node) => onChoose?.(node.id)}
        onSelectionChange={({ nodes: selected }) => {
          const first = selected[0]
          if (first !== undefined && first.id !== chosen) onChoose?.(first.id)
        }}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        elementsSelectable={onChoose !== undefined}
        minZoom={0.1}
        maxZoom={1.6}
        // The mouse wheel scrolls the page. With Ctrl it zooms the graph.
        zoomOnScroll={false}
        preventScrolling={false}
        deleteKeyCode={null}
        fitView
        fitViewOptions={whole}
      />
      <div className="no-print absolute bottom-2 left-2 flex rounded-md border bg-surface">
        <IconButton label="Zoom in" icon="plus" onClick={() => void zoomIn()} />
        <IconButton label="Zoom out" icon="minus" onClick={() => void zoomOut()} />
        <IconButton label="Show all" icon="monitor" onClick={() => void fitView(whole)} />
      </div>
    </section>
  )
}

function TaskBox({ data }: NodeProps<TaskNode>) {
  const { task, chosen, down } = data
  const look = task.status === null ? null : taskLook(task.status)
  const moves = task.status === 'running'
  return (
    <div
      title={task.name}
      style={{ width: NODE_WIDTH, height: NODE_HEIGHT }}
      className={cx(
        'flex overflow-hidden rounded-md border bg-surface text-left',
        chosen ? 'border-accent shadow-[0_0_0_1px_var(--accent)]' : 'border-line-strong',
        task.status === 'waiting' && 'border-dashed',
        task.status === 'skipped' && 'opacity-60',
      )}
    >
      <Handle type="target" position={down ? Position.Top : Position.Left} />
      <span className={cx('w-1 shrink-0', look === null ? 'bg-line-strong' : TONE_FILL[look.tone])} />
      <span className="flex min-w-0 flex-1 flex-col justify-center px-2.5">
        <span className="bidi-plain truncate font-medium text-sm">{task.name}</span>
        <span className="flex items-center gap-1.5 truncate text-ink-2 text-xs">
          {look === null ? (
            task.detail
          ) : (
            <>
              <Icon
                name={look.icon}
                size={12}
                className={cx('shrink-0', TONE_TEXT[look.tone], moves && 'motion-safe:animate-skeleton')}
              />
              {look.label}
              {task.instances != null && ` ${task.instances.total - task.instances.open}/${task.instances.total}`}
              {task.startTime != null && <Duration from={task.startTime} to={task.endTime} className="text-ink-3" />}
            </>
          )}
        </span>
      </span>
      <Handle type="source" position={down ? Position.Bottom : Position.Right} />
    </div>
  )
}
