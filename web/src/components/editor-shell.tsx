import { type ReactNode, useState } from 'react'
import { ApiError } from '@/api/problem'
import { useDenied } from '@/api/session'
import { PageHead } from '@/layout/page'
import type { Commands } from '@/lib/quote'
import { useShortcuts } from '@/lib/shortcuts'
import type { Editor } from '@/pages/job-editor/editor'
import { JsonPane } from '@/pages/job-editor/json-pane'
import { unclaimed } from '@/pages/job-editor/model/pointers'
import { Button } from '@/ui/button'
import { FormAndJson, NotSaved, useUnsaved, type View, ViewSwitch } from './editor-parts'

/**
 * The page of an editor for a resource that has a name and a document. It shows the form beside the JSON, shows errors
 * of the API at their fields, and asks before unsaved changes are discarded.
 */
export function EditorShell({
  editor,
  noun,
  title,
  isNew,
  changed,
  missing,
  fields,
  save,
  commands,
  children,
}: {
  editor: Editor
  /** `calendar` */
  noun: string
  title: string
  isNew: boolean
  changed: boolean
  /** The reason why the document cannot be saved yet; undefined if it can. */
  missing: string | undefined
  /** JSON pointers to the parts of the document whose errors the form shows. */
  fields: readonly string[]
  /** Saves the document, and then opens the page of the saved resource. */
  save: () => Promise<void>
  commands: () => Commands
  children: ReactNode
}) {
  const [view, setView] = useState<View>('form')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const { left, dialog } = useUnsaved(noun, changed)
  const denied = useDenied('edit')
  const why =
    denied ??
    (editor.broken !== null
      ? 'The text is no JSON.'
      : (missing ?? (!isNew && !changed ? 'Nothing is changed.' : undefined)))
  const submit = async () => {
    if (why !== undefined || busy) return
    setBusy(true)
    setError(null)
    left.current = true
    try {
      await save()
    } catch (reason) {
      left.current = false
      setError(reason)
      if (reason instanceof ApiError) editor.showErrors(reason.problem.errors ?? [])
    } finally {
      setBusy(false)
    }
  }
  useShortcuts('Editor', [{ keys: 'Mod+s', label: 'Save', run: () => void submit() }])
  const others = unclaimed(editor.errors, fields)
  return (
    <>
      <PageHead
        title={<span className="bidi-plain">{title}</span>}
        name={title}
        detail={!isNew && changed ? 'changed' : undefined}
        actions={
          <>
            <ViewSwitch view={view} onChange={setView} />
            <Button look="primary" icon="save" busy={busy} why={why} onClick={() => void submit()}>
              {isNew ? `Create ${noun}` : 'Save'}
            </Button>
          </>
        }
      />
      <div className="grid min-w-0 content-start gap-4 px-4 pb-8 lg:px-6">
        {error !== null && <NotSaved error={error} errors={editor.errors} others={others} />}
        <FormAndJson
          view={view}
          columns="xl:grid-cols-[minmax(0,1fr)_minmax(22rem,30rem)] 3xl:grid-cols-[minmax(0,1fr)_minmax(0,44rem)]"
          form={children}
          json={<JsonPane editor={editor} commands={commands} noun={noun} />}
        />
      </div>
      {dialog}
    </>
  )
}
