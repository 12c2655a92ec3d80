import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { ifMatch, request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import { refuseIfTaken } from '@/api/taken'
import type { Calendar, CalendarEntry } from '@/api/types'
import { EditorShell } from '@/components/editor-shell'
import { Section } from '@/layout/page'
import { serverNow } from '@/lib/clock'
import { isZone } from '@/lib/time'
import { Field, Input } from '@/ui/field'
import { toast } from '@/ui/toast'
import { putCommands } from '../calendars/commands'
import { useClosed } from '../calendars/use-closed'
import { CalendarView, periodOfView, type Shown } from '../calendars/view'
import { type Editor as DocumentEditor, useEditor } from '../job-editor/editor'
import { LongText, TextValue } from '../job-editor/fields'
import { type JobDocument, same } from '../job-editor/model/document'
import type { PointedError } from '../job-editor/model/pointers'
import { ZONES } from '../job-editor/schedule-form'
import { useSettled } from '../job-editor/schedule-preview'
import { EntriesForm } from './entries-form'

const FIELDS = ['/timezone', '/description', '/entries', '/path/name']

export function Editor({
  initial,
  name: saved,
  version,
}: {
  initial: JobDocument
  name?: string
  version?: number | undefined
}) {
  const editor = useEditor(initial)
  const [headers] = useState(() => ifMatch(version))
  const [name, setName] = useState(saved ?? '')
  const navigate = useNavigate()
  const client = useQueryClient()
  const isNew = saved === undefined
  const checked = useCheck(editor)
  const save = async () => {
    if (isNew) await refuseIfTaken('/v1/calendars/{name}', { name }, 'a calendar', '/path/name')
    const put = await request<Calendar>('PUT', '/v1/calendars/{name}', {
      path: { name },
      body: editor.document,
      headers,
    })
    client.setQueryData(keys.calendars('one', name), put)
    void client.invalidateQueries({ queryKey: keys.calendars('list') })
    toast.done(isNew ? `Created calendar ${name}` : `Saved version ${put.version} of ${name}`)
    void navigate({ to: '/calendars/$name', params: { name: put.name } })
  }
  return (
    <EditorShell
      editor={checked}
      noun="calendar"
      title={isNew ? 'New calendar' : `Edit ${saved}`}
      isNew={isNew}
      changed={editor.broken !== null || !same(editor.document, initial) || (isNew && name !== '')}
      missing={name === '' ? 'It needs a name.' : undefined}
      fields={FIELDS}
      save={save}
      commands={() => putCommands(name || 'NAME', editor.document)}
    >
      <Section title="Name">
        <div className="grid gap-4 p-4 sm:grid-cols-2">
          {isNew && (
            <Field
              label="Name"
              hint="Letters, digits and . _ : @ - Jobs refer to it by this name."
              error={checked.error('/path/name')}
            >
              {control => (
                <Input
                  {...control}
                  autoFocus
                  value={name}
                  placeholder="holidays"
                  onChange={event => {
                    setName(event.target.value.trim())
                    editor.showErrors(editor.errors.filter(item => item.pointer !== '/path/name'))
                  }}
                />
              )}
            </Field>
          )}
          <TextValue
            editor={checked}
            at="/timezone"
            label="Time zone"
            placeholder="UTC"
            suggestions={ZONES}
            hint="Dates and times without an offset are those of this zone."
          />
          <LongText editor={checked} at="/description" label="Description" rows={1} className="sm:col-span-2" />
        </div>
      </Section>
      <EntriesForm editor={checked} />
      <Preview editor={checked} />
    </EditorShell>
  )
}

/** Validates the edited calendar on the server before it is saved, and adds the errors to the editor. */
function useCheck(editor: DocumentEditor): DocumentEditor {
  const body = useSettled(bodyOf(editor.document))
  const [at] = useState(serverNow)
  const check = useClosed(body, { from: at, to: at + 86_400_000 }, body.entries.length > 0)
  const [found, setFound] = useState<readonly PointedError[]>([])
  useEffect(() => setFound(errorsOf(check.error)), [check.error])
  const errors = editor.errors.length > 0 ? editor.errors : found
  return {
    ...editor,
    errors,
    error: pointer => {
      const own = errors.filter(item => item.pointer === pointer || item.pointer.startsWith(`${pointer}/`))
      return own.length === 0 ? undefined : own.map(item => item.detail).join(' ')
    },
  }
}

function errorsOf(error: unknown): readonly PointedError[] {
  if (!(error instanceof ApiError) || error.problem.errors === undefined) return []
  return error.problem.errors.map(item => ({ ...item, pointer: item.pointer.replace(/^\/calendar(?=\/|$)/, '') }))
}

function bodyOf(document: JobDocument): { timezone: string; entries: CalendarEntry[] } {
  const { timezone, entries } = document
  return {
    timezone: typeof timezone === 'string' ? timezone : 'UTC',
    entries: Array.isArray(entries) ? (entries as CalendarEntry[]) : [],
  }
}

function Preview({ editor }: { editor: DocumentEditor }) {
  const body = useSettled(bodyOf(editor.document))
  const [shown, setShown] = useState<Shown>({ level: 'month', at: serverNow() })
  if (!isZone(body.timezone) || editor.errors.length > 0)
    return (
      <div className="panel grid min-h-24 place-items-center p-4 text-ink-2 text-sm">
        The picture comes back when the marked values are corrected.
      </div>
    )
  return (
    <CalendarView
      calendar={body}
      shown={shown}
      onShow={next => setShown({ level: next.level, at: periodOfView(next, body.timezone).from })}
    />
  )
}
