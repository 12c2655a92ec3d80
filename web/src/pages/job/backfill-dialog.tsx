import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import { CopyAs } from '@/components/copy'
import { ErrorNotice } from '@/components/notices'
import { Time } from '@/components/time'
import { serverNow } from '@/lib/clock'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { toast } from '@/ui/toast'
import { backfillCommands } from './commands'

type Range = { total: number; firstFireTime: string | null; lastFireTime: string | null }

const DAY = 86_400_000

/** Formats an instant (milliseconds) as the value of a `datetime-local` field, in the zone of the browser. */
function localInput(at: number): string {
  const date = new Date(at - new Date(at).getTimezoneOffset() * 60_000)
  return date.toISOString().slice(0, 16)
}

/** Creates a backfill for a past range. The dialog shows the number of its fires before the backfill is created. */
export function BackfillDialog({ jobId, onClose }: { jobId: string; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [from, setFrom] = useState(() => localInput(serverNow() - DAY))
  const [to, setTo] = useState(() => localInput(serverNow()))
  const [parallelism, setParallelism] = useState(1)
  const [counted, setCounted] = useState<{ range: Range; of: string } | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const isComplete = from !== '' && to !== ''
  const input = {
    from: isComplete ? new Date(from).toISOString() : '',
    to: isComplete ? new Date(to).toISOString() : '',
    parallelism,
  }
  const current = `${from} ${to}`
  const isCounted = counted?.of === current
  const send = async (dryRun: boolean) => {
    setBusy(true)
    setError(null)
    try {
      const path = `/v1/jobs/${encodeURIComponent(jobId)}/backfill`
      if (dryRun) {
        const range = await request<Range>('POST', path, { body: { ...input, dryRun } })
        setCounted({ range, of: current })
      } else {
        const { backfillId } = await request<{ backfillId: string }>('POST', path, { body: input })
        await client.invalidateQueries({ queryKey: keys.backfills() })
        toast.done('The backfill has begun', {
          label: 'Open',
          run: () => void navigate({ to: '/backfills', search: { backfill: backfillId } }),
        })
        onClose()
      }
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title="Backfill a range"
      description="Runs the fires of a past range, again or for the first time, oldest first."
      footer={
        <>
          <CopyAs commands={() => backfillCommands(jobId, input)} />
          <span className="flex-1" />
          <Button onClick={onClose}>Close</Button>
          {isCounted ? (
            <Button look="primary" busy={busy} disabled={counted.range.total === 0} onClick={() => void send(false)}>
              Make {plural(counted.range.total, 'run')}
            </Button>
          ) : (
            <Button look="primary" busy={busy} disabled={!isComplete} onClick={() => void send(true)}>
              Count the fires
            </Button>
          )}
        </>
      }
    >
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="From">
          {control => (
            <Input {...control} type="datetime-local" value={from} onChange={event => setFrom(event.target.value)} />
          )}
        </Field>
        <Field label="To" hint="Exclusive; in the time zone of this browser.">
          {control => (
            <Input {...control} type="datetime-local" value={to} onChange={event => setTo(event.target.value)} />
          )}
        </Field>
        <Field label="Runs at the same time">
          {control => (
            <Input
              {...control}
              type="number"
              min={1}
              max={1000}
              value={parallelism}
              onChange={event => setParallelism(Math.max(1, Math.floor(Number(event.target.value)) || 1))}
              className="max-w-28"
            />
          )}
        </Field>
        {isCounted && (
          <p role="status" className="text-sm sm:col-span-2">
            <span className="font-medium">{plural(counted.range.total, 'fire')}</span> in this range
            {counted.range.firstFireTime !== null && (
              <>
                : from <Time at={counted.range.firstFireTime} full /> to <Time at={counted.range.lastFireTime} full />
              </>
            )}
            .
          </p>
        )}
        {error !== null && <ErrorNotice error={error} className="sm:col-span-2" />}
      </div>
    </Dialog>
  )
}
