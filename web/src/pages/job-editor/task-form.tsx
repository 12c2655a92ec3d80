import { useQuery } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { Field, Segments, Select } from '@/ui/field'
import type { Editor } from './editor'
import { CheckValue, ChoiceValue, JsonValue, LongText, PairsValue, TextValue, WordsValue } from './fields'
import { type JobDocument, NEW_WORKFLOW, valueAt } from './model/document'

const KINDS = [
  { value: 'http', label: 'HTTP' },
  { value: 'shell', label: 'Shell' },
  { value: 'script', label: 'Script' },
  { value: 'python', label: 'Python' },
  { value: 'registered', label: 'Registered' },
  { value: 'workflow', label: 'Workflow' },
] as const
type Kind = (typeof KINDS)[number]['value']

export const EMPTY_TASKS: Record<Exclude<Kind, 'registered'>, JobDocument> = {
  http: { kind: 'http', url: '' },
  shell: { kind: 'shell', command: '' },
  script: { kind: 'script', script: '' },
  python: { kind: 'python', function: '' },
  workflow: NEW_WORKFLOW,
}

function kindOf(editor: Editor): Kind {
  if (editor.value('/taskId') !== undefined) return 'registered'
  const kind = editor.string('/task/kind')
  return KINDS.find(item => item.value === kind)?.value ?? 'http'
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'].map(value => ({ value, label: value }))

/** The form for the task of a job. */
export function TaskForm({ editor, fixedKind }: { editor: Editor; fixedKind: boolean }) {
  const kind = kindOf(editor)
  const choose = (next: Kind) => {
    if (next === kind) return
    if (next === 'registered') {
      editor.set('/task', undefined)
      editor.set('/taskId', '')
    } else {
      editor.set('/taskId', undefined)
      editor.set('/task', EMPTY_TASKS[next])
    }
  }
  // The API cannot change a job into a workflow, or a workflow into a job.
  const offered = fixedKind ? KINDS.filter(item => (item.value === 'workflow') === (kind === 'workflow')) : KINDS
  return (
    <div className="grid grid-cols-1 gap-4">
      <div className="overflow-x-auto">
        <Segments label="Kind of task" value={kind} onChange={choose} options={offered} />
      </div>
      <KindForm editor={editor} kind={kind} />
      {kind === 'registered' && <RegisteredForm editor={editor} />}
      {kind === 'workflow' && <WorkflowForm editor={editor} />}
      {kind !== 'workflow' && (
        <JsonValue
          editor={editor}
          at="/parameters"
          label="Parameters"
          hint={PARAMETER_HINTS[kind]}
          rows={kind === 'python' ? 4 : 3}
        />
      )}
    </div>
  )
}

/** The fields for one task kind, at `/task` of the document. */
export function KindForm({ editor, kind }: { editor: Editor; kind: string }) {
  switch (kind) {
    case 'http':
      return <HttpForm editor={editor} />
    case 'shell':
      return <ShellForm editor={editor} />
    case 'script':
      return <ScriptForm editor={editor} />
    case 'python':
      return (
        <TextValue
          editor={editor}
          at="/task/function"
          label="Function"
          hint="A function that a worker registered with @timeball.task. Parameters are its keyword arguments."
          placeholder="reports.nightly"
          mono
          keepEmpty
        />
      )
    default:
      return null
  }
}

function ScriptForm({ editor }: { editor: Editor }) {
  return (
    <>
      <TextValue
        editor={editor}
        at="/task/script"
        label="File"
        hint="A file of the worker's scripts folder. Its suffix chooses the interpreter."
        placeholder="train.py"
        mono
        keepEmpty
      />
      <WordsValue editor={editor} at="/task/args" label="Arguments" hint="With commas between them." />
      <PairsValue editor={editor} at="/task/env" label="Environment" names={{ key: 'NAME', value: 'value' }} />
    </>
  )
}

const PARAMETER_HINTS: Record<Exclude<Kind, 'workflow'>, string> = {
  http: 'A JSON object. Without a body, it is the body of the request.',
  shell: 'A JSON object. The command gets it in the environment variable TIMEBALL_PARAMETERS.',
  script: 'A JSON object that the script gets.',
  python: 'A JSON object: the keyword arguments of the function.',
  registered: 'A JSON object with the parameters of the task.',
}

function HttpForm({ editor }: { editor: Editor }) {
  return (
    <>
      <div className="grid grid-cols-[7rem_minmax(0,1fr)] items-start gap-2">
        <ChoiceValue editor={editor} at="/task/method" label="Method" options={METHODS} fallback="POST" />
        <TextValue
          editor={editor}
          at="/task/url"
          label="URL"
          placeholder="https://example.com/hooks/nightly"
          mono
          keepEmpty
        />
      </div>
      <PairsValue editor={editor} at="/task/headers" label="Headers" names={{ key: 'Header', value: 'value' }} />
      <JsonValue
        editor={editor}
        at="/task/body"
        label="Body"
        hint="JSON, or text. Without one, the parameters are sent."
        rows={2}
        textIsText
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <WordsValue
          editor={editor}
          at="/task/acceptedStatuses"
          label="Accepted statuses"
          placeholder="2xx"
          hint="Statuses that count as success."
          numbers
        />
        <div className="self-center">
          <CheckValue
            editor={editor}
            at="/task/breaker"
            label="Circuit breaker"
            hint="Wait while the host keeps failing."
            fallback={true}
          />
        </div>
      </div>
    </>
  )
}

function ShellForm({ editor }: { editor: Editor }) {
  const isList = Array.isArray(editor.value('/task/command'))
  return (
    <>
      {isList ? (
        <JsonValue
          editor={editor}
          at="/task/command"
          label="Command"
          hint="A list: the program and its arguments, without a shell."
          rows={3}
        />
      ) : (
        <LongText
          editor={editor}
          at="/task/command"
          label="Command"
          hint="Run by sh -c. Exit code 0 is success."
          placeholder="python3 etl.py"
          rows={3}
          mono
          keepEmpty
        />
      )}
      <TextValue
        editor={editor}
        at="/task/cwd"
        label="Folder"
        hint="Where it starts. Default: a folder of its own."
        mono
      />
      <PairsValue editor={editor} at="/task/env" label="Environment" names={{ key: 'NAME', value: 'value' }} />
    </>
  )
}

function RegisteredForm({ editor }: { editor: Editor }) {
  const tasks = useQuery({
    queryKey: keys.tasks('names'),
    queryFn: ({ signal }) => api.get('/v1/tasks', { query: { limit: 500 }, signal }),
  })
  const value = editor.string('/taskId')
  const names = tasks.data?.items.map(item => item.taskId) ?? []
  return (
    <Field
      label="Task"
      hint="A task that `timeball tasks set` registered. A change of the task changes what this job runs."
      error={editor.error('/taskId')}
    >
      {control => (
        <Select {...control} value={value} onChange={event => editor.set('/taskId', event.target.value)}>
          <option value="">Choose a task</option>
          {[...new Set([...names, ...(value === '' ? [] : [value])])].map(name => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </Select>
      )}
    </Field>
  )
}

function WorkflowForm({ editor }: { editor: Editor }) {
  const tasks = editor.value('/task/tasks')
  const list = Array.isArray(tasks) ? tasks : []
  return (
    <div className="grid grid-cols-1 gap-2">
      <ol className="grid grid-cols-1 gap-1">
        {list.map((task: unknown, index) => {
          const needs = valueAt(task, '/needs')
          const error = editor.error(`/task/tasks/${index}`) ?? editor.error(`/tasks/${index}`)
          return (
            <li key={index} className="rounded-md border bg-sunken px-3 py-1.5 text-sm">
              <span className="bidi-plain font-medium [overflow-wrap:anywhere]">
                {String(valueAt(task, '/name') ?? `Task ${index + 1}`)}
              </span>
              <span className="text-ink-3">
                {' '}
                {String(valueAt(task, '/task/kind') ?? valueAt(task, '/taskId') ?? '')}
                {Array.isArray(needs) && needs.length > 0 && ` after ${needs.map(String).join(', ')}`}
                {valueAt(task, '/forEach') !== undefined && ' · once for each item'}
              </span>
              {error !== undefined && <span className="block text-bad text-xs">{error}</span>}
            </li>
          )
        })}
      </ol>
      <JsonValue
        editor={editor}
        at="/task/tasks"
        label="Tasks"
        hint="Each task has a name, what it runs, and the names of the tasks that it needs."
        rows={14}
      />
    </div>
  )
}
