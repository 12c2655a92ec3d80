import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { RegisteredTask } from '@/api/types'
import { ConfirmDialog } from '@/components/confirm'
import { CopyAs } from '@/components/copy'
import { JsonView } from '@/components/json-view'
import { Loaded, Skeleton } from '@/components/notices'
import { RelativeTime } from '@/components/time'
import { UsingJobs } from '@/components/using-jobs'
import { PageHead, Section } from '@/layout/page'
import { useShortcuts } from '@/lib/shortcuts'
import { Button } from '@/ui/button'
import { toast } from '@/ui/toast'
import { deleteCommands, putCommands } from '../tasks/commands'
import { KIND_LABELS, taskWords } from '../tasks/words'

const route = getRouteApi('/shell/tasks/$taskId')

/** The page of one registered task: its definition in words and as JSON, and the jobs that refer to it. */
export function Page() {
  const { taskId } = route.useParams()
  const task = useQuery({
    queryKey: keys.tasks('one', taskId),
    queryFn: ({ signal }): Promise<RegisteredTask> => api.get('/v1/tasks/{taskId}', { path: { taskId }, signal }),
  })
  return (
    <Loaded query={task} skeleton={<Waiting taskId={taskId} />}>
      {found => <One found={found} />}
    </Loaded>
  )
}

function One({ found }: { found: RegisteredTask }) {
  const { taskId } = found
  const navigate = useNavigate()
  const denied = useDenied('edit')
  const [deleting, setDeleting] = useState(false)
  const edit = () => void navigate({ to: '/tasks/$taskId/edit', params: { taskId } })
  const newJob = () => void navigate({ to: '/jobs/new', search: { task: taskId } })
  useShortcuts('Task', [
    { keys: 'e', label: 'Edit', run: edit },
    { keys: 'n', label: 'New job with this task', run: newJob },
  ])
  return (
    <>
      <PageHead
        title={<span className="bidi-plain">{taskId}</span>}
        name={taskId}
        detail={
          <>
            {KIND_LABELS[found.task.kind]}, version {found.version}, changed <RelativeTime at={found.updatedAt} />
          </>
        }
        actions={
          <>
            <CopyAs commands={() => putCommands(taskId, found.task)} />
            <Button icon="trash" why={denied} onClick={() => setDeleting(true)}>
              Delete
            </Button>
            <Button icon="plus" why={denied} onClick={newJob}>
              New job
            </Button>
            <Button icon="edit" look="primary" why={denied} onClick={edit}>
              Edit
            </Button>
          </>
        }
      />
      <div className="grid min-w-0 items-start gap-4 px-4 pb-8 lg:px-6 xl:grid-cols-2">
        <div className="grid min-w-0 gap-4">
          <Section title="What it runs">
            <dl className="grid gap-x-4 gap-y-2 p-4 text-sm sm:grid-cols-[7rem_minmax(0,1fr)]">
              {taskWords(found.task).map(item => (
                <div key={item.label} className="grid gap-x-4 sm:col-span-2 sm:grid-cols-subgrid">
                  <dt className="text-ink-3">{item.label}</dt>
                  <dd className="grid min-w-0 gap-1 [overflow-wrap:anywhere]">
                    <span className="bidi-plain">{item.text}</span>
                    {item.code !== undefined && (
                      <code className="bidi-plain block whitespace-pre-wrap rounded-md border bg-sunken px-2.5 py-1.5 font-mono text-xs">
                        {item.code}
                      </code>
                    )}
                  </dd>
                </div>
              ))}
            </dl>
          </Section>
          <Section title="JSON">
            <JsonView value={found.task} className="m-3" />
          </Section>
        </div>
        <UsingJobs
          filter={{ taskId }}
          nothing="No job that may still fire runs it."
          action={
            <Button small icon="plus" why={denied} onClick={newJob}>
              New job with this task
            </Button>
          }
        />
      </div>
      <DeleteDialog taskId={taskId} open={deleting} onClose={() => setDeleting(false)} />
    </>
  )
}

function DeleteDialog({ taskId, open, onClose }: { taskId: string; open: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const client = useQueryClient()
  const remove = async () => {
    await api.delete('/v1/tasks/{taskId}', { path: { taskId } })
    await client.invalidateQueries({ queryKey: keys.tasks('list') })
    toast.done(`Deleted task ${taskId}`)
    void navigate({ to: '/tasks' })
  }
  return (
    <ConfirmDialog
      open={open}
      onClose={onClose}
      title={`Delete task ${taskId}?`}
      action="Delete task"
      danger
      onConfirm={remove}
      commands={() => deleteCommands(taskId)}
    >
      <p>
        It cannot be taken back. A task that jobs refer to cannot be deleted: give them another one, or cancel them.
      </p>
    </ConfirmDialog>
  )
}

function Waiting({ taskId }: { taskId: string }) {
  return (
    <>
      <PageHead title={taskId} name={taskId} detail={<Skeleton className="h-4 w-64" />} />
      <div className="grid gap-4 px-4 lg:px-6 xl:grid-cols-2">
        <Skeleton className="h-72 w-full" />
        <Skeleton className="h-72 w-full" />
      </div>
    </>
  )
}
