import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { CopyAs } from '@/components/copy'
import { ErrorNotice, Skeleton } from '@/components/notices'
import { count, plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { bulkSource, countLetters, refresh } from './actions'
import { type Progress, runBulk } from './bulk'
import { letterCommands } from './commands'
import type { LettersFilter } from './search'

export type BulkTarget = { action: 'retry' | 'discard'; fingerprint?: string; edit?: object }

/**
 * Number of dead letters per request. It is small, so that the progress bar moves, and large enough to process ten
 * thousand in seconds.
 */
const STEP_SIZE = 200

const WORDS = {
  retry: {
    title: 'Retry',
    doing: 'Retrying',
    done: 'retried',
    text: 'Each gets a new run. What cannot be retried stays here.',
  },
  discard: {
    title: 'Discard',
    doing: 'Discarding',
    done: 'discarded',
    text: 'They leave this list. They stay in the history, and can be retried from their own page.',
  },
}

/**
 * Executes an action on all dead letters that the filter selects. The dialog shows their number, then the progress, and
 * can stop the action.
 */
export function BulkDialog({
  target,
  filter,
  onClose,
}: {
  target: BulkTarget | null
  filter: LettersFilter
  onClose: () => void
}) {
  return target === null ? null : <OpenDialog target={target} filter={filter} onClose={onClose} />
}

function OpenDialog({ target, filter, onClose }: { target: BulkTarget; filter: LettersFilter; onClose: () => void }) {
  const client = useQueryClient()
  const stop = useRef(false)
  const [progress, setProgress] = useState<Progress | null>(null)
  const [state, setState] = useState<'asking' | 'working' | 'done'>('asking')
  const [error, setError] = useState<unknown>(null)
  const counted = useQuery({
    queryKey: ['letters-count', filter, target],
    queryFn: () => countLetters(filter, target.fingerprint),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const words = WORDS[target.action]
  const found = counted.data?.matched
  const start = async () => {
    setState('working')
    setError(null)
    stop.current = false
    try {
      const source = bulkSource(target.action, filter, target.fingerprint, counted.data?.createdBefore, target.edit)
      setProgress(await runBulk(source, STEP_SIZE, setProgress, () => stop.current))
    } catch (reason) {
      setError(reason)
    } finally {
      setState('done')
      refresh(client)
    }
  }
  const close = () => {
    stop.current = true
    onClose()
  }
  const total = progress?.total ?? found ?? 0
  return (
    <Dialog
      open
      onClose={close}
      title={found === undefined ? words.title : `${words.title} ${plural(found, 'dead letter')}`}
      footer={
        state === 'asking' ? (
          <>
            <CopyAs commands={() => letterCommands(target.action, { filter, ...target })} />
            <span className="flex-1" />
            <Button onClick={close}>Keep as it is</Button>
            <Button
              look={target.action === 'discard' ? 'danger' : 'primary'}
              disabled={found === undefined || found === 0}
              onClick={() => void start()}
            >
              {found === undefined ? words.title : `${words.title} ${count(found)}`}
            </Button>
          </>
        ) : state === 'working' ? (
          <Button icon="stop" onClick={() => (stop.current = true)}>
            Stop
          </Button>
        ) : (
          <Button look="primary" onClick={close}>
            Close
          </Button>
        )
      }
    >
      <div className="grid gap-3 text-sm">
        {counted.error ? (
          <ErrorNotice error={counted.error} />
        ) : found === undefined ? (
          <Skeleton className="h-5 w-72" />
        ) : (
          state === 'asking' && (
            <p>
              {plural(found, 'dead letter')} {found === 1 ? 'matches' : 'match'}. {words.text}
            </p>
          )
        )}
        {state !== 'asking' && (
          <Report action={target.action} working={state === 'working'} progress={progress} total={total} />
        )}
        {error !== null && <ErrorNotice error={error} />}
      </div>
    </Dialog>
  )
}

function Report({
  action,
  working,
  progress,
  total,
}: {
  action: BulkTarget['action']
  working: boolean
  progress: Progress | null
  total: number
}) {
  const words = WORDS[action]
  const done = progress?.done ?? 0
  const stopped = progress !== null && progress.done < progress.total
  return (
    <div className="grid gap-1.5">
      <progress aria-label={words.doing} max={Math.max(1, total)} value={done} className="h-2 w-full accent-accent" />
      <p role="status">
        {working
          ? `${words.doing}: ${count(done)} of ${count(total)}.`
          : `${count(progress?.changed ?? 0)} ${words.done}${stopped ? ', then stopped' : ''}.`}
        {progress !== null &&
          progress.failed > 0 &&
          ` ${count(progress.failed)} could not be ${words.done}: ${progress.firstError ?? ''}`}
      </p>
    </div>
  )
}
