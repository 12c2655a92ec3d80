import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { CopyAs } from '@/components/copy'
import { ErrorNotice, Skeleton } from '@/components/notices'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, TextArea } from '@/ui/field'
import { letterCommands } from './commands'
import { editableOf, readEdit } from './edit'
import type { LettersFilter } from './search'

export type EditTarget = {
  /** The run whose spec the dialog shows. */
  exampleRunId: string
  count: number
  /** The group to retry; undefined retries only the example run. */
  fingerprint?: string
}

/** Changes parameters, task, limits or retries of the new runs. The job does not change. */
export function EditDialog({
  target,
  filter,
  onClose,
  onRetry,
}: {
  target: EditTarget | null
  filter: LettersFilter
  onClose: () => void
  onRetry: (target: EditTarget, edit: object) => Promise<unknown>
}) {
  if (target === null) return null
  return <OpenDialog key={target.exampleRunId} target={target} filter={filter} onClose={onClose} onRetry={onRetry} />
}

function OpenDialog({
  target,
  filter,
  onClose,
  onRetry,
}: {
  target: EditTarget
  filter: LettersFilter
  onClose: () => void
  onRetry: (target: EditTarget, edit: object) => Promise<unknown>
}) {
  const spec = useQuery({
    queryKey: keys.run(target.exampleRunId, 'spec'),
    queryFn: ({ signal }) => api.get('/v1/runs/{runId}/spec', { path: { runId: target.exampleRunId }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const [draft, setDraft] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const before = spec.data === undefined ? {} : editableOf(spec.data.spec)
  const text = draft ?? JSON.stringify(before, null, 2)
  const read = readEdit(before, text)
  const edit = 'edit' in read ? read.edit : {}
  const changed = 'changed' in read ? read.changed : []
  const what =
    target.fingerprint === undefined
      ? { runIds: [target.exampleRunId], edit }
      : { filter, fingerprint: target.fingerprint, edit }
  const retry = async () => {
    setBusy(true)
    setError(null)
    try {
      await onRetry(target, edit)
      onClose()
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={target.count === 1 ? 'Edit and retry' : `Edit and retry ${plural(target.count, 'run')}`}
      description={
        target.count === 1
          ? 'The new run executes this. The job does not change.'
          : 'This is the newest run of the group. What you change here is changed in all new runs; the rest of each stays as it was.'
      }
      footer={
        <>
          <CopyAs commands={() => letterCommands('retry', what)} />
          <span className="flex-1 self-center text-ink-2 text-xs">
            {changed.length === 0 ? 'Nothing is changed yet.' : `Changes ${changed.join(', ')}.`}
          </span>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button
            look="primary"
            icon="retry"
            busy={busy}
            disabled={'error' in read || spec.data === undefined}
            onClick={() => void retry()}
          >
            {target.count === 1 ? 'Retry' : `Retry ${plural(target.count, 'run')}`}
          </Button>
        </>
      }
    >
      {spec.error ? (
        <ErrorNotice error={spec.error} />
      ) : spec.data === undefined ? (
        <Skeleton className="h-72 w-full" />
      ) : (
        <div className="grid gap-3">
          <Field label="What it executes" error={'error' in read ? read.error : undefined}>
            {control => (
              <TextArea
                {...control}
                autoFocus
                rows={Math.min(22, Math.max(10, text.split('\n').length + 1))}
                value={text}
                onChange={event => setDraft(event.target.value)}
                className="font-mono text-xs leading-5"
              />
            )}
          </Field>
          {error !== null && <ErrorNotice error={error} />}
        </div>
      )}
    </Dialog>
  )
}
