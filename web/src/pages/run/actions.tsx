import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { Run } from '@/api/types'
import { ConfirmDialog } from '@/components/confirm'
import { CopyAs } from '@/components/copy'
import { useShortcuts } from '@/lib/shortcuts'
import { isTerminal } from '@/lib/states'
import { Button, IconButton } from '@/ui/button'
import { Menu, MenuItem, MenuLine } from '@/ui/menu'
import { toast } from '@/ui/toast'
import { againCommands, cancelCommands, readCommands } from './commands'
import { EditDialog } from './edit-dialog'

const RETRYABLE: readonly Run['status'][] = ['failed', 'dead', 'cancelled']

/** The actions of a run: retry, edit and retry, replay, cancel, and copy as a command. */
export function RunActions({ run }: { run: Run }) {
  const denied = useDenied('run')
  const noEdit = useDenied('edit')
  const client = useQueryClient()
  const navigate = useNavigate()
  const [asks, setAsks] = useState<'cancel' | 'edit-retry' | 'edit-replay' | null>(null)
  const [busy, setBusy] = useState(false)
  const { runId } = run
  const canRetry = RETRYABLE.includes(run.status) && run.retriedAs === null
  const ended = isTerminal(run.status)

  const opened = (newRunId: string, text: string) => {
    void client.invalidateQueries({ queryKey: keys.run(runId) })
    toast.done(text)
    void navigate({ to: '/runs/$runId', params: { runId: newRunId } })
  }
  const retry = async (edit?: object) => {
    const made = await api.post('/v1/runs/{runId}/retry', { path: { runId }, ...(edit && { body: { edit } }) })
    opened(made.runId, 'Retried as a new run')
  }
  const replay = async (edit?: object) => {
    const made = await api.post('/v1/runs/{runId}/replay', { path: { runId }, ...(edit && { body: { edit } }) })
    opened(made.runId, 'Replayed as a new run')
  }
  const cancel = async () => {
    const answer = await api.post('/v1/runs/{runId}/cancel', { path: { runId } })
    client.setQueryData(keys.run(runId), (before: Run | undefined) => ({ ...before, ...answer }))
    await client.invalidateQueries({ queryKey: keys.run(runId) })
  }
  const act = async (work: () => Promise<void>, failure: string) => {
    setBusy(true)
    try {
      await work()
    } catch (error) {
      toast.error(failure, error)
    } finally {
      setBusy(false)
    }
  }
  const quickRetry = () => void act(retry, 'It cannot be retried')
  const quickReplay = () => void act(replay, 'It cannot be replayed')

  useShortcuts('Run', [
    ...(canRetry && denied === undefined ? [{ keys: 'r', label: 'Retry', run: quickRetry }] : []),
    ...(canRetry && noEdit === undefined
      ? [{ keys: 'e', label: 'Edit and retry', run: () => setAsks('edit-retry') }]
      : []),
    ...(!ended && denied === undefined ? [{ keys: 'x', label: 'Cancel', run: () => setAsks('cancel') }] : []),
  ])

  return (
    <>
      {canRetry && (
        <>
          <Button look="primary" icon="retry" busy={busy} why={denied} onClick={quickRetry}>
            Retry
          </Button>
          <Button icon="edit" why={noEdit} onClick={() => setAsks('edit-retry')}>
            Edit and retry
          </Button>
        </>
      )}
      {ended && !canRetry && (
        <Button icon="undo" busy={busy} why={denied} onClick={quickReplay}>
          Replay
        </Button>
      )}
      {!ended && (
        <Button
          icon="stop"
          why={denied ?? (run.cancelRequestedAt === null ? undefined : 'It is being cancelled.')}
          onClick={() => setAsks('cancel')}
        >
          Cancel
        </Button>
      )}
      <CopyAs
        commands={() =>
          canRetry ? againCommands('retry', runId) : ended ? againCommands('replay', runId) : cancelCommands(runId)
        }
      />
      <Menu trigger={<IconButton label="More" icon="dots" />}>
        {canRetry && (
          <MenuItem icon="undo" why={denied} onSelect={quickReplay}>
            Replay with the current definition
          </MenuItem>
        )}
        {ended && (
          <MenuItem icon="edit" why={noEdit} onSelect={() => setAsks('edit-replay')}>
            Edit and replay
          </MenuItem>
        )}
        <MenuItem icon="jobs" onSelect={() => void navigate({ to: '/jobs/$jobId', params: { jobId: run.jobId } })}>
          Open the job
        </MenuItem>
        <MenuItem icon="table" onSelect={() => window.print()}>
          Print
        </MenuItem>
        <MenuLine />
        <MenuItem icon="copy" onSelect={() => void navigator.clipboard?.writeText(readCommands(runId).curl)}>
          Copy the request of this page
        </MenuItem>
      </Menu>
      <ConfirmDialog
        open={asks === 'cancel'}
        onClose={() => setAsks(null)}
        title="Cancel this run?"
        action="Cancel the run"
        danger
        onConfirm={cancel}
        commands={() => cancelCommands(runId)}
      >
        {run.status === 'running'
          ? 'The worker stops it: first with a request to end, then, after its grace period, by force.'
          : 'It will not start.'}
      </ConfirmDialog>
      {(asks === 'edit-retry' || asks === 'edit-replay') && (
        <EditDialog
          run={run}
          action={asks === 'edit-retry' ? 'retry' : 'replay'}
          onClose={() => setAsks(null)}
          onRun={asks === 'edit-retry' ? retry : replay}
        />
      )}
    </>
  )
}
