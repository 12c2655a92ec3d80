import { useBlocker } from '@tanstack/react-router'
import { type ReactNode, useRef, useState } from 'react'
import { ApiError } from '@/api/problem'
import { useDenied } from '@/api/session'
import { PageHead } from '@/layout/page'
import type { Commands } from '@/lib/quote'
import { useShortcuts } from '@/lib/shortcuts'
import type { Editor } from '@/pages/job-editor/editor'
import { JsonPane } from '@/pages/job-editor/json-pane'
import { unclaimed } from '@/pages/job-editor/model/pointers'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Segments } from '@/ui/field'
import { ConfirmDialog } from './confirm'
import { ErrorNotice } from './notices'

/**
 * The page of an editor for something that has a name and a document: form and JSON side by side, save with errors at
 * their fields, and a question before changes are lost.
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
  /** What keeps it from being saved, or undefined. */
  missing: string | undefined
  /** Parts of the document that the form shows with their errors. */
  fields: readonly string[]
  /** Saves, and then opens what was saved. */
  save: () => Promise<void>
  commands: () => Commands
  children: ReactNode
}) {
  const [view, setView] = useState<'form' | 'json'>('form')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const left = useRef(false)
  const denied = useDenied('write')
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
  const blocker = useBlocker({
    shouldBlockFn: () => changed && !left.current,
    enableBeforeUnload: () => changed && !left.current,
    withResolver: true,
  })
  useShortcuts('Editor', [{ keys: 'Mod+s', label: 'Save', run: () => void submit() }])
  const others = unclaimed(editor.errors, fields)
  const pointed = error instanceof ApiError && (error.problem.errors ?? []).length > 0
  return (
    <>
      <PageHead
        title={<span className="bidi-plain">{title}</span>}
        name={title}
        detail={!isNew && changed ? 'changed' : undefined}
        actions={
          <>
            <div className="xl:hidden">
              <Segments
                label="View"
                value={view}
                onChange={setView}
                options={[
                  { value: 'form', label: 'Form' },
                  { value: 'json', label: 'JSON' },
                ]}
              />
            </div>
            <Button look="primary" icon="save" busy={busy} why={why} onClick={() => void submit()}>
              {isNew ? `Create ${noun}` : 'Save'}
            </Button>
          </>
        }
      />
      <div className="grid min-w-0 content-start gap-4 px-4 pb-8 lg:px-6">
        {error !== null && !pointed && <ErrorNotice error={error} title="It is not saved" />}
        {pointed && editor.errors.length > 0 && (
          <div role="alert" className="grid gap-1 rounded-lg border bg-bad-soft px-4 py-2 text-sm">
            <p>
              <strong className="font-medium">It is not saved.</strong> Correct the marked{' '}
              {editor.errors.length === 1 ? 'value' : 'values'}, and save again.
            </p>
            {others.map(item => (
              <p key={item.pointer} className="[overflow-wrap:anywhere]">
                <code className="font-mono text-xs">{item.pointer}</code> {item.detail}
              </p>
            ))}
          </div>
        )}
        <div className="grid min-w-0 items-start gap-4 xl:grid-cols-[minmax(0,1fr)_minmax(22rem,30rem)] 3xl:grid-cols-[minmax(0,1fr)_minmax(0,44rem)]">
          <div className={cx('min-w-0 gap-4 xl:grid', view === 'form' ? 'grid' : 'hidden')}>{children}</div>
          <div className={cx('min-w-0 xl:sticky xl:top-0 xl:block', view === 'json' ? 'block' : 'hidden')}>
            <JsonPane editor={editor} commands={commands} noun={noun} />
          </div>
        </div>
      </div>
      <ConfirmDialog
        open={blocker.status === 'blocked'}
        onClose={() => blocker.reset?.()}
        title="Leave without saving?"
        action="Leave"
        danger
        onConfirm={async () => blocker.proceed?.()}
      >
        The changes to this {noun} are lost.
      </ConfirmDialog>
    </>
  )
}
