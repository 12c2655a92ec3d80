import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { Run } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { ErrorNotice, Loaded, Skeleton } from '@/components/notices'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input, TextArea } from '@/ui/field'
import { againCommands } from './commands'
import { editOf } from './edit'

type Props = {
  run: Run
  action: 'retry' | 'replay'
  onClose: () => void
  onRun: (edit: object) => Promise<void>
}

/** Edits the parameters and the timeout of the new run. Unchanged values are copied from the old run. */
export function EditDialog(props: Props) {
  const { run, onClose, action } = props
  const spec = useQuery({
    queryKey: keys.run(run.runId, 'spec'),
    queryFn: ({ signal }) => api.get('/v1/runs/{runId}/spec', { path: { runId: run.runId }, signal }),
    staleTime: 60_000,
  })
  const title = action === 'retry' ? 'Edit and retry' : 'Edit and replay'
  return (
    <Loaded
      query={spec}
      skeleton={
        <Dialog open onClose={onClose} title={title}>
          <Skeleton className="h-48 w-full" />
        </Dialog>
      }
    >
      {found => (
        <EditForm
          {...props}
          title={title}
          parameters={found.spec.parameters as Record<string, unknown>}
          timeout={found.spec.timeout === null ? '' : String(found.spec.timeout)}
        />
      )}
    </Loaded>
  )
}

function EditForm({
  run,
  action,
  onClose,
  onRun,
  title,
  parameters,
  timeout,
}: Props & { title: string; parameters: Record<string, unknown>; timeout: string }) {
  const [text, setText] = useState(() => JSON.stringify(parameters, null, 2))
  const [limit, setLimit] = useState(timeout)
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const read = editOf(parameters, text, timeout, limit)
  const problem = error instanceof ApiError ? error : null
  const send = async () => {
    if ('error' in read) return
    setBusy(true)
    setError(null)
    try {
      await onRun(read.edit)
      onClose()
    } catch (reason) {
      setError(reason)
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      description={
        action === 'retry'
          ? 'A new run with the definition that this run had, and your changes.'
          : 'A new run with the current definition of the job, and your changes.'
      }
      wide
      footer={
        <>
          <CopyAs commands={() => againCommands(action, run.runId, 'edit' in read ? read.edit : undefined)} />
          <span className="flex-1" />
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" busy={busy} disabled={'error' in read} onClick={() => void send()}>
            {action === 'retry' ? 'Retry' : 'Replay'}
          </Button>
        </>
      }
    >
      <div className="grid gap-4">
        <Field
          label="Parameters"
          hint="JSON. A name that you remove is removed from the new run."
          error={'error' in read ? read.error : problem?.at('/edit/parameters')}
        >
          {control => (
            <TextArea
              {...control}
              rows={12}
              value={text}
              onChange={event => setText(event.target.value)}
              className="font-mono text-xs leading-5"
            />
          )}
        </Field>
        <Field label="Timeout" hint="90s, 15m, 1h30m; empty for the default." error={problem?.at('/edit/timeout')}>
          {control => (
            <Input {...control} value={limit} onChange={event => setLimit(event.target.value)} className="max-w-40" />
          )}
        </Field>
        {error !== null && <ErrorNotice error={error} />}
      </div>
    </Dialog>
  )
}
