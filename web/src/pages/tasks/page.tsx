import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { RegisteredTask } from '@/api/types'
import { type Column, DataTable } from '@/components/data-table'
import { EmptyState, Loaded } from '@/components/notices'
import { RowLink } from '@/components/row-link'
import { SearchField } from '@/components/search-field'
import { RelativeTime } from '@/components/time'
import { PageHead } from '@/layout/page'
import { allPages } from '@/lib/all-pages'
import { text } from '@/lib/search'
import { useShortcuts } from '@/lib/shortcuts'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { KIND_LABELS, taskCode } from './words'

const route = getRouteApi('/shell/tasks')

/** The list of all registered tasks. */
export function Page() {
  const q = text(route.useSearch(), 'q')
  const setSearch = route.useNavigate()
  const navigate = useNavigate()
  const denied = useDenied('edit')
  const query = useQuery({
    queryKey: keys.tasks('list'),
    queryFn: ({ signal }) =>
      allPages<RegisteredTask>(cursor =>
        api.get('/v1/tasks', { query: { limit: 500, ...(cursor === undefined ? {} : { cursor }) }, signal }),
      ),
  })
  const create = () => void navigate({ to: '/new/task' })
  useShortcuts('Tasks', [{ keys: 'n', label: 'New task', run: create }])
  const shown = useMemo(() => {
    const wanted = q?.toLowerCase() ?? ''
    return (query.data?.items ?? []).filter(item =>
      `${item.taskId} ${item.task.kind} ${taskCode(item.task)}`.toLowerCase().includes(wanted),
    )
  }, [query.data, q])
  return (
    <>
      <PageHead
        title="Tasks"
        name="Tasks"
        detail="What jobs run, registered under a name, so that several jobs can share it."
        actions={
          <Button look="primary" icon="plus" why={denied} onClick={create}>
            New task
          </Button>
        }
      >
        <SearchField
          value={q}
          onChange={value => void setSearch({ search: before => ({ ...before, q: value }), replace: true })}
          label="Search tasks"
          placeholder="Search by id, kind or command"
        />
      </PageHead>
      <Loaded query={query}>
        {found =>
          found.items.length === 0 ? (
            <EmptyState
              icon="tasks"
              title="No registered tasks yet"
              command={'timeball tasks set backup --shell "pg_dump app | gzip > /backup/app.gz"'}
            >
              A job can define what it runs by itself, or refer to a registered task with --task-id. When the task
              changes, all of these jobs run the new version.
            </EmptyState>
          ) : shown.length === 0 ? (
            <EmptyState icon="search" title="No task matches">
              The search looks into ids, kinds and what the tasks run.
            </EmptyState>
          ) : (
            <DataTable
              rows={shown}
              columns={COLUMNS}
              rowKey={task => task.taskId}
              compact={compact}
              label="Tasks"
              onOpen={task => void navigate({ to: '/tasks/$taskId', params: { taskId: task.taskId } })}
              footer={found.more ? `The first ${plural(found.items.length, 'task')}` : plural(shown.length, 'task')}
              className="border-t bg-surface"
            />
          )
        }
      </Loaded>
    </>
  )
}

const COLUMNS: readonly Column<RegisteredTask>[] = [
  {
    id: 'id',
    header: 'Task',
    width: 'minmax(9rem, 1fr)',
    cell: task => (
      <RowLink
        to={`tasks/${encodeURIComponent(task.taskId)}`}
        className="bidi-plain font-medium hover:text-accent hover:underline"
      >
        {task.taskId}
      </RowLink>
    ),
  },
  {
    id: 'kind',
    header: 'Kind',
    width: '5rem',
    cell: task => <span className="text-ink-2">{KIND_LABELS[task.task.kind]}</span>,
  },
  {
    id: 'runs',
    header: 'Runs',
    width: 'minmax(12rem, 3fr)',
    cell: task => (
      <code className="bidi-plain font-mono text-ink-2 text-xs" title={taskCode(task.task)}>
        {taskCode(task.task)}
      </code>
    ),
  },
  {
    id: 'version',
    header: 'Version',
    width: '4.5rem',
    align: 'right',
    minTable: 760,
    cell: task => <span className="text-ink-2">{task.version}</span>,
  },
  {
    id: 'updated',
    header: 'Changed',
    width: '6rem',
    align: 'right',
    cell: task => <RelativeTime at={task.updatedAt} className="text-ink-2" />,
  },
]

const compact = (task: RegisteredTask) => (
  <>
    <div className="flex items-center gap-2">
      <span className="bidi-plain min-w-0 flex-1 truncate font-medium">{task.taskId}</span>
      <span className="text-ink-2 text-xs">{KIND_LABELS[task.task.kind]}</span>
    </div>
    <code className="bidi-plain block truncate font-mono text-ink-2 text-xs">{taskCode(task.task)}</code>
  </>
)
