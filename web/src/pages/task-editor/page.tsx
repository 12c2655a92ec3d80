import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { api, ifMatch, request } from '@/api/client'
import { keys } from '@/api/keys'
import { refuseIfTaken } from '@/api/taken'
import type { RegisteredTask } from '@/api/types'
import { EditorShell } from '@/components/editor-shell'
import { Loaded, Skeleton } from '@/components/notices'
import { PageHead, Section } from '@/layout/page'
import { Field, Input, Segments } from '@/ui/field'
import { toast } from '@/ui/toast'
import { type Editor, useEditor } from '../job-editor/editor'
import { type JobDocument, same } from '../job-editor/model/document'
import { EMPTY_TASKS, KindForm } from '../job-editor/task-form'
import { putCommands } from '../tasks/commands'
import { KIND_LABELS } from '../tasks/words'

type Kind = RegisteredTask['task']['kind']

/** Creates or edits a registered task. */
export function Page() {
  const { taskId } = useParams({ strict: false })
  if (taskId !== undefined) return <Existing key={taskId} taskId={taskId} />
  return <TaskEditor key="new" initial={EMPTY_TASKS.http} />
}

function Existing({ taskId }: { taskId: string }) {
  const task = useQuery({
    queryKey: keys.tasks('one', taskId),
    queryFn: ({ signal }): Promise<RegisteredTask> => api.get('/v1/tasks/{taskId}', { path: { taskId }, signal }),
  })
  return (
    <Loaded query={task} skeleton={<Waiting title={`Edit ${taskId}`} />}>
      {found => <TaskEditor taskId={found.taskId} initial={found.task} version={found.version} />}
    </Loaded>
  )
}

const KINDS = (Object.keys(KIND_LABELS) as Kind[]).map(value => ({ value, label: KIND_LABELS[value] }))

function TaskEditor({ initial, taskId: saved, version }: { initial: object; taskId?: string; version?: number }) {
  const first = initial as JobDocument
  const [headers] = useState(() => ifMatch(version))
  const editor = useEditor(first)
  const inner = useMemo(() => asTaskOfJob(editor), [editor])
  const [taskId, setTaskId] = useState(saved ?? '')
  const navigate = useNavigate()
  const client = useQueryClient()
  const isNew = saved === undefined
  const kind = KINDS.find(item => item.value === editor.string('/kind'))?.value ?? 'http'
  const save = async () => {
    if (isNew) await refuseIfTaken('/v1/tasks/{taskId}', { taskId }, 'a task', '/path/taskId')
    const put = await request<RegisteredTask>('PUT', '/v1/tasks/{taskId}', {
      path: { taskId },
      body: editor.document,
      headers,
    })
    client.setQueryData(keys.tasks('one', taskId), put)
    void client.invalidateQueries({ queryKey: keys.tasks('list') })
    void client.invalidateQueries({ queryKey: keys.tasks('names') })
    toast.done(isNew ? `Created task ${taskId}` : `Saved version ${put.version} of ${taskId}`)
    void navigate({ to: '/tasks/$taskId', params: { taskId: put.taskId } })
  }
  return (
    <EditorShell
      editor={editor}
      noun="task"
      title={isNew ? 'New task' : `Edit ${saved}`}
      isNew={isNew}
      changed={editor.broken !== null || !same(editor.document, first) || (isNew && taskId !== '')}
      missing={taskId === '' ? 'It needs an id.' : undefined}
      fields={['/path/taskId', ...Object.keys(editor.document).map(name => `/${name}`)]}
      save={save}
      commands={() => putCommands(taskId || 'ID', editor.document)}
    >
      {isNew && (
        <Section title="Name">
          <div className="p-4">
            <Field
              label="Id"
              hint="Letters, digits and . _ : @ - Jobs refer to it by this id."
              error={editor.error('/path/taskId')}
              className="max-w-md"
            >
              {control => (
                <Input
                  {...control}
                  autoFocus
                  value={taskId}
                  placeholder="send-report"
                  onChange={event => {
                    setTaskId(event.target.value.trim())
                    editor.showErrors(editor.errors.filter(item => item.pointer !== '/path/taskId'))
                  }}
                />
              )}
            </Field>
          </div>
        </Section>
      )}
      <Section title="What it runs">
        <div className="grid grid-cols-1 gap-4 p-4">
          <div className="overflow-x-auto">
            <Segments
              label="Kind of task"
              value={kind}
              onChange={next => next !== kind && editor.set('', EMPTY_TASKS[next])}
              options={KINDS}
            />
          </div>
          <KindForm editor={inner} kind={kind} />
          <p className="text-ink-3 text-xs">
            Parameters, schedule, retries and limits belong to the jobs. A change is used by their next runs.
          </p>
        </div>
      </Section>
    </EditorShell>
  )
}

/** Converts the editor for the forms of jobs. There a task is the field `/task`, here it is the whole document. */
function asTaskOfJob(editor: Editor): Editor {
  const own = (pointer: string) => pointer.replace(/^\/task(?=\/|$)/, '')
  return {
    ...editor,
    value: pointer => editor.value(own(pointer)),
    string: pointer => editor.string(own(pointer)),
    error: pointer => editor.error(own(pointer)),
    set: (pointer, value) => editor.set(own(pointer), value),
  }
}

function Waiting({ title }: { title: string }) {
  return (
    <>
      <PageHead title={title} name={title} />
      <div className="grid gap-4 px-4 lg:px-6 xl:grid-cols-2">
        <Skeleton className="h-96 w-full" />
        <Skeleton className="h-96 w-full" />
      </div>
    </>
  )
}
