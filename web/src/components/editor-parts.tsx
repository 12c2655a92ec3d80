import { useBlocker } from '@tanstack/react-router'
import { type ReactNode, type RefObject, useRef } from 'react'
import { ApiError } from '@/api/problem'
import type { PointedError } from '@/pages/job-editor/model/pointers'
import { cx } from '@/ui/cx'
import { Segments } from '@/ui/field'
import { ConfirmDialog } from './confirm'
import { ErrorNotice } from './notices'

/** Parts of the pages of editors: what is edited as a form and as JSON, and how errors and unsaved changes are shown. */

export type View = 'form' | 'json'

/** Switches between form and JSON on screens that are too narrow for both. */
export function ViewSwitch({ view, onChange }: { view: View; onChange: (view: View) => void }) {
  return (
    <div className="xl:hidden">
      <Segments
        label="View"
        value={view}
        onChange={onChange}
        options={[
          { value: 'form', label: 'Form' },
          { value: 'json', label: 'JSON' },
        ]}
      />
    </div>
  )
}

/** The form beside the JSON, or one of them on narrow screens. `columns` are the classes of the widths. */
export function FormAndJson({
  view,
  columns,
  form,
  json,
}: {
  view: View
  columns: string
  form: ReactNode
  json: ReactNode
}) {
  return (
    <div className={cx('grid min-w-0 items-start gap-4', columns)}>
      <div className={cx('min-w-0 gap-4 xl:grid', view === 'form' ? 'grid' : 'hidden')}>{form}</div>
      <div className={cx('min-w-0 xl:sticky xl:top-0 xl:block', view === 'json' ? 'block' : 'hidden')}>{json}</div>
    </div>
  )
}

/** Shows why a document was not saved, with the errors that belong to no field of the form. */
export function NotSaved({
  error,
  errors,
  others,
}: {
  error: unknown
  errors: readonly PointedError[]
  others: readonly PointedError[]
}) {
  const pointed = error instanceof ApiError && (error.problem.errors ?? []).length > 0
  if (!pointed) return <ErrorNotice error={error} title="It is not saved" />
  if (errors.length === 0) return null
  return (
    <div role="alert" className="grid gap-1 rounded-lg border bg-bad-soft px-4 py-2 text-sm">
      <p>
        <strong className="font-medium">It is not saved.</strong> Correct the marked{' '}
        {errors.length === 1 ? 'value' : 'values'}, and save again.
      </p>
      {others.map(item => (
        <p key={item.pointer} className="[overflow-wrap:anywhere]">
          <code className="font-mono text-xs">{item.pointer}</code> {item.detail}
        </p>
      ))}
    </div>
  )
}

/**
 * Asks before unsaved changes are discarded. While `left` is true, leaving the page needs no question: the changes are
 * being saved. `dialog` is the question.
 */
export function useUnsaved(noun: string, changed: boolean): { left: RefObject<boolean>; dialog: ReactNode } {
  const left = useRef(false)
  const blocker = useBlocker({
    shouldBlockFn: () => changed && !left.current,
    enableBeforeUnload: () => changed && !left.current,
    withResolver: true,
  })
  const dialog = (
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
  )
  return { left, dialog }
}
