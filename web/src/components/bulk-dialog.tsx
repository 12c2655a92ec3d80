import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { request } from '@/api/client'
import type { CountedAnswer } from '@/api/types'
import { actInPages, BULK_START, type BulkPage, type BulkProgress, type BulkSum } from '@/lib/bulk'
import type { Commands } from '@/lib/quote'
import { count, plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { toast } from '@/ui/toast'
import { CopyAs } from './copy'
import { ErrorNotice, Skeleton } from './notices'
import { RowLink } from './row-link'

export type BulkAction = {
  /** The name of the action in the API, such as `retry`. */
  action: string
  /** The verb for the title and the button, such as `Retry`. */
  verb: string
  /** The participle for the message at the end, such as `retried`. */
  done: string
  /** One or two sentences that explain the effect of the action. */
  meaning: ReactNode
  danger?: boolean
  /**
   * True if processed items no longer match the filter. The dialog then counts the matches again to show progress while
   * one request is executed.
   */
  counts?: boolean
  /** True if the dialog has fields for a reason and an end time, which the API stores. */
  pause?: boolean
}

export type PauseWords = { reason?: string; until?: string }

type Step =
  | { name: 'counting' }
  | { name: 'ready'; matched: number; before: string }
  | { name: 'working'; matched: number; before: string; left: number | null }
  | { name: 'stopped'; matched: number; before: string }
  | { name: 'done' }

const PROGRESS_PERIOD_MS = 1000

/**
 * Executes an action on all items that a filter selects. The dialog shows the number of items, then executes the action
 * and shows its progress. The user may close the dialog before the end; a message then reports the result.
 */
export function BulkDialog({
  path,
  noun,
  bulk,
  filter,
  words,
  commands,
  onClose,
  refresh,
}: {
  path: '/v1/runs:bulk' | '/v1/jobs:bulk'
  noun: 'run' | 'job'
  bulk: BulkAction
  filter: Record<string, unknown>
  /** The filter as a sentence. */
  words: ReactNode
  commands: (pause: PauseWords) => Commands
  onClose: () => void
  refresh: () => void
}) {
  const [reason, setReason] = useState('')
  const [until, setUntil] = useState('')
  const pause: PauseWords = {
    ...(reason.trim() === '' ? {} : { reason: reason.trim() }),
    ...(until === '' ? {} : { until: new Date(until).toISOString() }),
  }
  const { step, progress, error, act, stop } = useBulk({ path, noun, bulk, filter, pause, refresh })
  const paged = path === '/v1/jobs:bulk'
  const sum = progress.sum
  const isOver = step.name === 'done'
  const isBusy = step.name === 'working'
  return (
    <Dialog
      open
      onClose={onClose}
      title={isOver ? `${plural(sum.changed, noun)} ${bulk.done}` : `${bulk.verb} all ${noun}s that match`}
      footer={
        <>
          <CopyAs commands={() => commands(bulk.pause === true ? pause : {})} />
          <span className="flex-1" />
          <Buttons bulk={bulk} noun={noun} step={step} act={act} stop={paged ? stop : undefined} onClose={onClose} />
        </>
      }
    >
      <div className="grid gap-4 text-sm">
        {!isOver && (
          <div className="rounded-md border bg-sunken px-3 py-2">
            <p className="label mb-1">Filter</p>
            <div className="bidi-plain [overflow-wrap:anywhere]">{words}</div>
          </div>
        )}
        {step.name === 'counting' && error === null && <Skeleton className="h-8 w-48" />}
        {step.name === 'ready' && (
          <>
            <p>
              <span className="font-semibold text-2xl tracking-tight">{count(step.matched)}</span>{' '}
              {step.matched === 1 ? `${noun} matches` : `${noun}s match`} now.
            </p>
            <p className="text-ink-2">{bulk.meaning}</p>
            {bulk.pause === true && (
              <PauseFields noun={noun} reason={reason} setReason={setReason} until={until} setUntil={setUntil} />
            )}
          </>
        )}
        {(isBusy || step.name === 'stopped') && (
          <Progress
            matched={step.matched}
            done={paged || !isBusy ? sum.matched : step.left === null ? null : step.matched - step.left}
            words={paged ? 'Keep this tab open until it is done.' : 'You may close this: it ends by itself.'}
          />
        )}
        {(isOver || step.name === 'stopped') && (
          <Result sum={sum} noun={noun} done={bulk.done} isPart={step.name === 'stopped'} />
        )}
        {error !== null && <ErrorNotice error={error} />}
      </div>
    </Dialog>
  )
}

/** Executes the steps of an action on a filter: count the items, process them, and stop on request. */
function useBulk({
  path,
  noun,
  bulk,
  filter,
  pause,
  refresh,
}: {
  path: '/v1/runs:bulk' | '/v1/jobs:bulk'
  noun: string
  bulk: BulkAction
  filter: Record<string, unknown>
  pause: PauseWords
  refresh: () => void
}) {
  const client = useQueryClient()
  const [step, setStep] = useState<Step>({ name: 'counting' })
  const [progress, setProgress] = useState<BulkProgress>(BULK_START)
  const [error, setError] = useState<unknown>(null)
  const isStopped = useRef(false)
  const given = JSON.stringify(filter)
  const paged = path === '/v1/jobs:bulk'

  useEffect(() => {
    const abort = new AbortController()
    const body = { action: bulk.action, filter: JSON.parse(given) as object, dryRun: true }
    request<CountedAnswer>('POST', path, { body, signal: abort.signal })
      .then(answer => setStep({ name: 'ready', matched: answer.matched, before: answer.createdBefore ?? '' }))
      .catch((cause: unknown) => {
        if (!abort.signal.aborted) setError(cause)
      })
    return () => abort.abort()
  }, [path, bulk.action, given])

  const act = async (matched: number, before: string) => {
    setError(null)
    isStopped.current = false
    setStep({ name: 'working', matched, before, left: null })
    // Items that are created later are excluded, so that a replay does not select its own runs. The action `run` starts
    // each job once for one value of `createdBefore`, even if a request is repeated.
    const bounded = before === '' ? filter : { ...filter, createdBefore: before }
    const stopCounting =
      !paged && bulk.counts === true
        ? watch(path, bulk.action, bounded, left => setStep(now => (now.name === 'working' ? { ...now, left } : now)))
        : () => {}
    const send = (cursor: string | null) =>
      request<BulkPage>('POST', path, {
        body: { action: bulk.action, filter: bounded, ...pause, ...(cursor === null ? {} : { cursor }) },
      })
    try {
      const end = await actInPages(progress, send, setProgress, () => isStopped.current)
      setStep(end.ended ? { name: 'done' } : { name: 'stopped', matched, before })
      if (end.ended) toast.done(`${plural(end.sum.changed, noun)} ${bulk.done}`)
    } catch (cause) {
      setError(cause)
      setStep({ name: 'stopped', matched, before })
      toast.error(`Could not ${bulk.action} all ${noun}s`, cause)
    } finally {
      stopCounting()
      refresh()
      void client.invalidateQueries()
    }
  }
  const stop = () => {
    isStopped.current = true
  }
  return { step, progress, error, act, stop }
}

function Buttons({
  bulk,
  noun,
  step,
  act,
  stop,
  onClose,
}: {
  bulk: BulkAction
  noun: string
  step: Step
  act: (matched: number, before: string) => Promise<void>
  stop: (() => void) | undefined
  onClose: () => void
}) {
  const look = bulk.danger === true ? 'danger' : 'primary'
  switch (step.name) {
    case 'done':
      return <Button onClick={onClose}>Close</Button>
    case 'working':
      return (
        <>
          {stop !== undefined && <Button onClick={stop}>Stop</Button>}
          <Button onClick={onClose}>Close</Button>
          <Button look={look} busy>
            {bulk.verb}
          </Button>
        </>
      )
    case 'stopped':
      return (
        <>
          <Button onClick={onClose}>Close</Button>
          <Button look={look} onClick={() => void act(step.matched, step.before)}>
            Continue
          </Button>
        </>
      )
    case 'counting':
    case 'ready':
      return (
        <>
          <Button onClick={onClose}>Keep as they are</Button>
          <Button
            look={look}
            disabled={step.name === 'counting' || step.matched === 0}
            onClick={() => step.name === 'ready' && void act(step.matched, step.before)}
          >
            {step.name === 'ready' ? `${bulk.verb} ${plural(step.matched, noun)}` : bulk.verb}
          </Button>
        </>
      )
  }
}

function PauseFields({
  noun,
  reason,
  setReason,
  until,
  setUntil,
}: {
  noun: string
  reason: string
  setReason: (text: string) => void
  until: string
  setUntil: (text: string) => void
}) {
  return (
    <div className="grid gap-3 sm:grid-cols-[1fr_auto]">
      <Field label="Reason" hint={`Shown wherever one of these ${noun}s is.`}>
        {control => (
          <Input {...control} value={reason} maxLength={1000} onChange={event => setReason(event.target.value)} />
        )}
      </Field>
      <Field label="Until" hint="Empty: until they are resumed.">
        {control => (
          <Input {...control} type="datetime-local" value={until} onChange={event => setUntil(event.target.value)} />
        )}
      </Field>
    </div>
  )
}

/** Counts the items that still match the filter, again and again. */
function watch(path: string, action: string, filter: object, onLeft: (left: number) => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let stopped = false
  const ask = async () => {
    try {
      const answer = await request<CountedAnswer>('POST', path, { body: { action, filter, dryRun: true } })
      if (!stopped) onLeft(answer.matched)
    } catch {
      // Errors are ignored here, because the request of the action reports them.
    }
    if (!stopped) timer = setTimeout(() => void ask(), PROGRESS_PERIOD_MS)
  }
  timer = setTimeout(() => void ask(), PROGRESS_PERIOD_MS)
  return () => {
    stopped = true
    clearTimeout(timer)
  }
}

function Progress({ matched, done, words }: { matched: number; done: number | null; words: string }) {
  const part = done === null || matched === 0 ? null : Math.min(1, Math.max(0, done / matched))
  return (
    <div className="grid gap-2" role="status">
      <div
        role="progressbar"
        aria-label="Progress"
        aria-valuemin={0}
        aria-valuemax={matched}
        {...(part === null ? {} : { 'aria-valuenow': Math.round(part * matched) })}
        className="h-2 overflow-hidden rounded-full bg-hover"
      >
        <div
          style={{ width: part === null ? '100%' : `${Math.max(2, part * 100)}%` }}
          className={`h-full rounded-full bg-accent transition-[width] ${part === null ? 'animate-skeleton' : ''}`}
        />
      </div>
      <p className="text-ink-2 text-sm">
        {part === null ? `Working on ${count(matched)}` : `${count(Math.round(part * matched))} of ${count(matched)}`}.{' '}
        {words}
      </p>
    </div>
  )
}

function Result({ sum, noun, done, isPart }: { sum: BulkSum; noun: 'run' | 'job'; done: string; isPart: boolean }) {
  return (
    <div className="grid gap-2">
      <p>
        {isPart ? `${plural(sum.changed, noun)} ${done} so far` : 'All of them were processed'}
        {sum.skipped > 0 ? `; ${plural(sum.skipped, noun)} refused:` : `; no ${noun} refused.`}
      </p>
      {sum.failed.length > 0 && (
        <ul className="max-h-48 overflow-auto rounded-md border text-xs" tabIndex={0} aria-label="Refused">
          {sum.failed.map(item => (
            <li key={item.id} className="border-b px-3 py-1.5 [overflow-wrap:anywhere] last:border-0">
              <RowLink
                to={noun === 'job' ? `jobs/${item.id}` : `runs/${item.id}`}
                className="font-mono hover:text-accent"
              >
                {item.id}
              </RowLink>{' '}
              <span className="text-ink-2">{item.detail}</span>
            </li>
          ))}
        </ul>
      )}
      {sum.skipped > sum.failed.length && sum.failed.length > 0 && (
        <p className="text-ink-3 text-xs">The first {count(sum.failed.length)} are listed.</p>
      )}
    </div>
  )
}
