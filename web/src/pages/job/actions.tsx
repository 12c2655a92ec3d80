import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { Job } from '@/api/types'
import { ConfirmDialog } from '@/components/confirm'
import { CopyAs } from '@/components/copy'
import { useShortcuts } from '@/lib/shortcuts'
import { Button, IconButton } from '@/ui/button'
import { Field, Input } from '@/ui/field'
import { Menu, MenuItem, MenuLine } from '@/ui/menu'
import { toast } from '@/ui/toast'
import { BackfillDialog } from './backfill-dialog'
import { deleteCommands, pauseCommands, resumeCommands, runNowCommands } from './commands'

/** The actions of a job. Run now, pause, resume and edit are buttons; clone, backfill and cancel are in the menu. */
export function JobActions({ job }: { job: Job }) {
  const denied = useDenied('run')
  const noEdit = useDenied('edit')
  const client = useQueryClient()
  const navigate = useNavigate()
  const [asks, setAsks] = useState<'pause' | 'cancel' | 'backfill' | null>(null)
  const [busy, setBusy] = useState<string | null>(null)
  const { jobId } = job
  const isOver = job.status === 'cancelled'
  const why = denied ?? (isOver ? 'The job was cancelled.' : undefined)
  const refresh = () => client.invalidateQueries({ queryKey: keys.job(jobId) })

  const act = async (name: string, failure: string, work: () => Promise<unknown>) => {
    setBusy(name)
    try {
      await work()
      await refresh()
    } catch (error) {
      toast.error(failure, error)
    } finally {
      setBusy(null)
    }
  }
  const runNow = () =>
    void act('run', 'It cannot be run', async () => {
      const made = await api.post('/v1/jobs/{jobId}/run', { path: { jobId } })
      toast.done(made.detail === '' ? 'A run was made' : made.detail, {
        label: 'Open',
        run: () => void navigate({ to: '/runs/$runId', params: { runId: made.runId } }),
      })
    })
  const resume = () =>
    void act('resume', 'It cannot be resumed', async () => {
      await api.post('/v1/jobs/{jobId}/resume', { path: { jobId } })
      toast.done('Resumed')
    })
  const edit = () => void navigate({ to: '/jobs/$jobId/edit', params: { jobId } })

  useShortcuts(
    'Job',
    why === undefined
      ? [
          { keys: 'r', label: 'Run now', run: runNow },
          job.status === 'paused'
            ? { keys: 'p', label: 'Resume', run: resume }
            : { keys: 'p', label: 'Pause', run: () => setAsks('pause') },
          ...(noEdit === undefined ? [{ keys: 'e', label: 'Edit', run: edit }] : []),
        ]
      : [],
  )

  return (
    <>
      <Button look="primary" icon="play" busy={busy === 'run'} why={why} onClick={runNow}>
        Run now
      </Button>
      {job.status === 'paused' ? (
        <Button icon="play" busy={busy === 'resume'} why={why} onClick={resume}>
          Resume
        </Button>
      ) : (
        <Button
          icon="pause"
          why={why ?? (job.status === 'completed' ? 'Its schedule has no more fires.' : undefined)}
          onClick={() => setAsks('pause')}
        >
          Pause
        </Button>
      )}
      <Button icon="edit" why={noEdit ?? why} onClick={edit}>
        Edit
      </Button>
      <CopyAs commands={() => (job.status === 'paused' ? resumeCommands(jobId) : runNowCommands(jobId))} />
      <Menu trigger={<IconButton label="More" icon="dots" />}>
        <MenuItem
          icon="copy"
          why={noEdit}
          onSelect={() => void navigate({ to: '/jobs/new', search: { clone: jobId } })}
        >
          Clone
        </MenuItem>
        <MenuItem icon="backfill" why={why} onSelect={() => setAsks('backfill')}>
          Backfill a range
        </MenuItem>
        <MenuLine />
        <MenuItem icon="trash" danger why={why} onSelect={() => setAsks('cancel')}>
          Cancel the job
        </MenuItem>
      </Menu>
      <PauseDialog
        jobId={jobId}
        open={asks === 'pause'}
        onClose={() => setAsks(null)}
        onPaused={() => {
          void refresh()
          toast.undo('Paused', resume)
        }}
      />
      <ConfirmDialog
        open={asks === 'cancel'}
        onClose={() => setAsks(null)}
        title="Cancel this job?"
        action="Cancel the job"
        danger
        commands={() => deleteCommands(jobId)}
        onConfirm={async () => {
          await api.delete('/v1/jobs/{jobId}', { path: { jobId } })
          await refresh()
        }}
      >
        <p>
          It fires no more, and its runs that wait or execute are cancelled. This cannot be taken back; its history
          stays.
        </p>
      </ConfirmDialog>
      {asks === 'backfill' && <BackfillDialog jobId={jobId} onClose={() => setAsks(null)} />}
    </>
  )
}

function PauseDialog({
  jobId,
  open,
  onClose,
  onPaused,
}: {
  jobId: string
  open: boolean
  onClose: () => void
  onPaused: () => void
}) {
  const [reason, setReason] = useState('')
  const [until, setUntil] = useState('')
  const end = until === '' ? null : new Date(until).toISOString()
  return (
    <ConfirmDialog
      open={open}
      onClose={onClose}
      title="Pause this job?"
      action="Pause"
      commands={() => pauseCommands(jobId, reason, end)}
      onConfirm={async () => {
        await api.post('/v1/jobs/{jobId}/pause', { path: { jobId }, body: { reason, until: end } })
        onPaused()
      }}
    >
      <p className="text-ink-2">It does not fire until it is resumed. Runs that execute are finished.</p>
      <Field label="Reason" hint="It is shown wherever the job is.">
        {control => (
          <Input
            {...control}
            autoFocus
            maxLength={500}
            value={reason}
            onChange={event => setReason(event.target.value)}
          />
        )}
      </Field>
      <Field label="Resume by itself at" hint="Optional; in the time zone of this browser.">
        {control => (
          <Input
            {...control}
            type="datetime-local"
            value={until}
            onChange={event => setUntil(event.target.value)}
            className="max-w-56"
          />
        )}
      </Field>
    </ConfirmDialog>
  )
}
