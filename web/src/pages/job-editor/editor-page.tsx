import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { ifMatch, request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import { useDenied } from '@/api/session'
import type { Job } from '@/api/types'
import { FormAndJson, NotSaved, useUnsaved, type View, ViewSwitch } from '@/components/editor-parts'
import { PageHead, Section } from '@/layout/page'
import { useShortcuts } from '@/lib/shortcuts'
import { Button } from '@/ui/button'
import { toast } from '@/ui/toast'
import { createCommands, updateCommands } from './commands'
import { type Editor, useEditor } from './editor'
import { LongText, TextValue, WordsValue } from './fields'
import { JsonPane } from './json-pane'
import { changeOf, documentOf, isWorkflow, type JobDocument, ordered, same, valueAt } from './model/document'
import { unclaimed } from './model/pointers'
import { RetryForm } from './retry-form'
import { RulesForm } from './rules-form'
import { ScheduleForm } from './schedule-form'
import { LoadPreview, SchedulePreview } from './schedule-preview'
import { TaskForm } from './task-form'
import { TestButton, TestPanel, useTestRun } from './test-run'

/** JSON pointers to the parts of the document whose errors the form shows. */
const FORM_PARTS = [
  '/name',
  '/description',
  '/tags',
  '/task',
  '/taskId',
  '/parameters',
  '/schedule',
  '/retry',
  '/overlap',
  '/catchUp',
  '/catchUpWindow',
  '/startDeadline',
  '/timeout',
  '/grace',
  '/startAt',
  '/endAt',
  '/maxRuns',
  '/jitter',
  '/calendars',
  '/priority',
  '/orderingKey',
  '/concurrency',
  '/rateLimit',
  '/resources',
  '/runsOn',
  '/delivery',
  '/resultLocation',
  '/userId',
]

export function EditorPage({ initial, saved, clonedFrom }: { initial: JobDocument; saved?: Job; clonedFrom?: string }) {
  // The document and the version that the changes are based on. An event refreshes the query, but not the edited
  // document.
  const [base, setBase] = useState(() => ({ document: initial, version: saved?.version ?? 0 }))
  const editor = useEditor(initial)
  const [view, setView] = useState<View>('form')
  const test = useTestRun(editor)
  const denied = useDenied('edit')
  const changed = editor.broken !== null || !same(editor.document, base.document)
  const { left, dialog } = useUnsaved('job', changed)
  const save = useSave({ editor, base, saved, onSaved: () => (left.current = true) })

  useShortcuts('Job editor', [{ keys: 'Mod+s', label: 'Save', run: () => save.mutate() }])

  const workflow = isWorkflow(editor.document)
  const commands = () =>
    saved === undefined
      ? createCommands(ordered(editor.document))
      : updateCommands(saved.jobId, base.version, changeOf(base.document, editor.document), workflow)
  const title = saved === undefined ? 'New job' : `Edit ${saved.name || saved.jobId}`
  const why =
    denied ??
    (editor.broken !== null
      ? 'The text is no JSON.'
      : saved !== undefined && !changed
        ? 'Nothing is changed.'
        : undefined)
  const others = unclaimed(editor.errors, FORM_PARTS)
  const movedOn = saved !== undefined && saved.version !== base.version

  return (
    <>
      <PageHead
        title={<span className="bidi-plain">{title}</span>}
        name={title}
        detail={
          clonedFrom !== undefined ? (
            <>
              a copy of <span className="bidi-plain">{clonedFrom}</span>
            </>
          ) : saved !== undefined ? (
            `version ${base.version}${changed ? ', changed' : ''}`
          ) : undefined
        }
        actions={
          <>
            <ViewSwitch view={view} onChange={setView} />
            <TestButton editor={editor} start={test} />
            <Button look="primary" icon="save" busy={save.isPending} why={why} onClick={() => save.mutate()}>
              {saved === undefined ? 'Create job' : 'Save'}
            </Button>
          </>
        }
      />
      <div className="grid min-w-0 content-start gap-4 px-4 pb-8 lg:px-6">
        {movedOn && (
          <Conflict
            current={saved}
            onTake={() => {
              const document = documentOf(saved)
              editor.replace(document)
              setBase({ document, version: saved.version })
              save.reset()
            }}
            onKeep={() => {
              setBase({ document: documentOf(saved), version: saved.version })
              save.reset()
            }}
          />
        )}
        {save.error !== null && !movedOn && <NotSaved error={save.error} errors={editor.errors} others={others} />}
        <TestPanel start={test} onClose={() => test.reset()} />
        <FormAndJson
          view={view}
          columns="xl:grid-cols-[minmax(0,1fr)_minmax(24rem,34rem)] 3xl:grid-cols-[minmax(0,1fr)_minmax(0,48rem)]"
          form={<Form editor={editor} isSaved={saved !== undefined} />}
          json={<JsonPane editor={editor} commands={commands} />}
        />
      </div>
      {dialog}
    </>
  )
}

function Form({ editor, isSaved }: { editor: Editor; isSaved: boolean }) {
  const rules = useMemo(() => rulesInUse(editor.document), [editor.document])
  return (
    <div className="grid min-w-0 gap-4 3xl:grid-cols-2 3xl:items-start">
      <div className="grid min-w-0 gap-4">
        <Section title="Name">
          <div className="grid gap-4 p-4 sm:grid-cols-2">
            <TextValue
              editor={editor}
              at="/name"
              label="Name"
              placeholder="nightly-etl"
              keepEmpty
              autoFocus={!isSaved}
            />
            <WordsValue editor={editor} at="/tags" label="Tags" placeholder="etl, nightly" />
            <LongText editor={editor} at="/description" label="Description" rows={1} className="sm:col-span-2" />
          </div>
        </Section>
        <Section title="What it runs">
          <div className="p-4">
            <TaskForm editor={editor} fixedKind={isSaved} />
          </div>
        </Section>
      </div>
      <div className="grid min-w-0 gap-4">
        <Section title="When">
          <div className="grid grid-cols-1 gap-5 p-4">
            <ScheduleForm editor={editor} />
            <SchedulePreview editor={editor} />
            <LoadPreview editor={editor} saved={isSaved} />
          </div>
        </Section>
        <Section title="After a failure">
          <div className="p-4">
            <RetryForm editor={editor} />
          </div>
        </Section>
        <details className="panel" open={rules > 0}>
          <summary className="flex min-h-10 items-center gap-2 px-4 py-1.5 font-semibold text-sm">
            Rules
            <span className="font-normal text-ink-3 text-xs">
              overlap, catch-up, priority, limits, workers{rules > 0 && ` · ${rules} set`}
            </span>
          </summary>
          <div className="border-t p-4">
            <RulesForm editor={editor} />
          </div>
        </details>
      </div>
    </div>
  )
}

const BASICS = ['name', 'description', 'tags', 'task', 'taskId', 'parameters', 'schedule', 'retry']

function rulesInUse(document: JobDocument): number {
  return Object.keys(document).filter(name => !BASICS.includes(name)).length
}

function useSave({
  editor,
  base,
  saved,
  onSaved,
}: {
  editor: Editor
  base: { document: JobDocument; version: number }
  saved: Job | undefined
  onSaved: () => void
}) {
  const navigate = useNavigate()
  const client = useQueryClient()
  return useMutation({
    mutationFn: () => {
      if (saved === undefined) return request<Job>('POST', '/v1/jobs', { body: ordered(editor.document) })
      const change = changeOf(base.document, editor.document)
      const headers = ifMatch(base.version)
      if (!isWorkflow(editor.document))
        return request<Job>('PATCH', '/v1/jobs/{jobId}', { path: saved, body: change, headers })
      const { task, ...rest } = change
      const tasks = task === undefined ? {} : { tasks: valueAt(task, '/tasks') }
      const path = { workflowId: saved.jobId }
      return request<Job>('PATCH', '/v1/workflows/{workflowId}', { path, body: { ...rest, ...tasks }, headers })
    },
    onSuccess: job => {
      onSaved()
      void client.invalidateQueries({ queryKey: ['jobs'] })
      void client.invalidateQueries({ queryKey: keys.job(job.jobId) })
      toast.done(saved === undefined ? `Created ${job.name || job.jobId}` : `Saved version ${job.version}`)
      void (isWorkflow(editor.document)
        ? navigate({ to: '/workflows/$workflowId', params: { workflowId: job.jobId } })
        : navigate({ to: '/jobs/$jobId', params: { jobId: job.jobId } }))
    },
    onError: error => {
      if (!(error instanceof ApiError)) return
      editor.showErrors(error.problem.errors ?? [])
      if (error.status === 412 && saved !== undefined)
        void client.invalidateQueries({ queryKey: keys.job(saved.jobId) })
      // Scrolls to the first field with an error.
      requestAnimationFrame(showFirstWrongField)
    },
  })
}

/** Scrolls only the page. `scrollIntoView` would also scroll the frame around it. */
function showFirstWrongField(): void {
  const field = document.querySelector('[aria-invalid="true"]')
  const page = field?.closest('main')
  if (field == null || page == null) return
  const offset = field.getBoundingClientRect().top - page.getBoundingClientRect().top
  page.scrollTo({ top: page.scrollTop + offset - page.clientHeight / 3, behavior: 'smooth' })
}

function Conflict({ current, onTake, onKeep }: { current: Job; onTake: () => void; onKeep: () => void }) {
  return (
    <div role="alert" className="flex flex-wrap items-center gap-3 rounded-lg border bg-late-soft px-4 py-3 text-sm">
      <p className="min-w-0 flex-1">
        <strong className="font-medium">The job was changed in the meantime.</strong> It is at version {current.version}{' '}
        now. Your changes are based on an older one.
      </p>
      <Button small onClick={onTake}>
        Discard mine, load version {current.version}
      </Button>
      <Button small onClick={onKeep}>
        Keep mine, save over it
      </Button>
    </div>
  )
}
