import { useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { ConfirmDialog } from '@/components/confirm'
import { plural } from '@/lib/time'
import { Icon } from '@/ui/icon'
import { toast } from '@/ui/toast'
import { drainCommands } from './commands'
import type { WorkerRow } from './model'

/** Asks the user to confirm that a worker is drained, which cannot be undone. */
export function DrainDialog({
  worker,
  isLast,
  onClose,
}: {
  worker: WorkerRow
  /** True if no other worker accepts runs. */
  isLast: boolean
  onClose: () => void
}) {
  const client = useQueryClient()
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Drain ${worker.name}?`}
      action="Drain the worker"
      danger
      commands={() => drainCommands(worker.workerId)}
      onConfirm={async () => {
        await api.post('/v1/workers/{workerId}/drain', { path: { workerId: worker.workerId } })
        toast.done(`${worker.name} is draining`)
        await client.invalidateQueries({ queryKey: keys.workers() })
      }}
    >
      <p>
        It takes no new runs.{' '}
        {worker.running === 0
          ? 'It executes nothing now, so it leaves at once.'
          : `It finishes the ${plural(worker.running, 'run')} that it executes, however long that takes, and leaves.`}
      </p>
      <p className="text-ink-2">
        This cannot be taken back. To let this machine take runs again, start the worker process again.
      </p>
      {isLast && (
        <p className="flex items-start gap-2 rounded-md bg-late-soft px-3 py-2">
          <Icon name="warning" className="mt-0.5 shrink-0 text-late-ink" />
          No other worker takes runs: due runs wait until one registers.
        </p>
      )}
    </ConfirmDialog>
  )
}
