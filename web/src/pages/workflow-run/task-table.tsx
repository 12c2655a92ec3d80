import { Link } from '@tanstack/react-router'
import type { components } from '@/api/schema'
import { type Column, DataTable } from '@/components/data-table'
import { StateBadge } from '@/components/state'
import { Duration, Sentence, Time } from '@/components/time'
import { taskLook } from '@/components/workflow/states'

export type Task = components['schemas']['TaskView']

const COLUMNS: readonly Column<Task>[] = [
  {
    id: 'name',
    header: 'Task',
    width: 'minmax(9rem, 1.5fr)',
    cell: task => <span className="bidi-plain font-medium">{task.name}</span>,
  },
  { id: 'status', header: 'State', width: '7.5rem', cell: task => <StateBadge look={taskLook(task.status)} /> },
  {
    id: 'needs',
    header: 'Needs',
    width: 'minmax(8rem, 1.5fr)',
    minTable: 720,
    cell: task => <span className="bidi-plain text-ink-2">{task.needs.join(', ') || '–'}</span>,
  },
  { id: 'items', header: 'Items', width: '4.5rem', align: 'right', minTable: 800, cell: task => <Items task={task} /> },
  { id: 'start', header: 'Started', width: '6.5rem', cell: task => <Time at={task.startTime} /> },
  {
    id: 'duration',
    header: 'Duration',
    width: '6rem',
    align: 'right',
    cell: task => <Duration from={task.startTime} to={task.endTime} />,
  },
  {
    id: 'reason',
    header: 'Reason',
    width: 'minmax(8rem, 2fr)',
    minTable: 1000,
    cell: task => (
      <span className="bidi-plain text-ink-2">
        <Sentence text={task.reason} />
      </span>
    ),
  },
  {
    id: 'run',
    header: 'Run',
    width: '5rem',
    cell: task =>
      task.runId === null ? (
        <span className="text-ink-3">–</span>
      ) : (
        <Link to="/runs/$runId" params={{ runId: task.runId }} className="text-accent hover:underline">
          Open
        </Link>
      ),
  },
]

function Items({ task }: { task: Task }) {
  if (task.instances === undefined) return null
  return (
    <span className="text-ink-2">
      {task.instances - (task.instancesOpen ?? 0)}/{task.instances}
    </span>
  )
}

const rowKey = (task: Task) => task.name

const compact = (task: Task) => (
  <>
    <div className="flex items-center gap-2">
      <span className="bidi-plain min-w-0 flex-1 truncate font-medium">{task.name}</span>
      <StateBadge look={taskLook(task.status)} />
    </div>
    <div className="flex gap-2 truncate text-ink-3 text-xs">
      <Duration from={task.startTime} to={task.endTime} />
      <span className="bidi-plain truncate">{task.needs.length > 0 && `after ${task.needs.join(', ')}`}</span>
    </div>
  </>
)

/** The tasks as a table, for screen readers and for workflows with thousands of tasks. */
export function TaskTable({ tasks, onChoose }: { tasks: readonly Task[]; onChoose: (name: string) => void }) {
  return (
    <DataTable
      rows={tasks}
      columns={COLUMNS}
      rowKey={rowKey}
      compact={compact}
      label="Tasks"
      onOpen={task => onChoose(task.name)}
      className="max-h-[70vh]"
    />
  )
}
