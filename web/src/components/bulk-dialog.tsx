import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { request } from '@/api/client'
import type { BulkAnswer } from '@/api/types'
import type { Commands } from '@/lib/quote'
import { count, plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { toast } from '@/ui/toast'
import { CopyAs } from './copy'
import { ErrorNotice, Skeleton } from './notices'

export type BulkAction = {
  /** The word of the API: `retry`. */
  action: string
  /** For the title and the button: `Retry`. */
  verb: string
  /** For the message at the end: `retried`. */
  done: string
  /** What it means, in one or two sentences. */
  meaning: ReactNode
  danger?: boolean
  /** Whether things that are done leave the filter, so that counting again shows the progress. */
  counts?: boolean
  /** Asks for a reason, which the API stores. */
  reason?: boolean
}

type Step =
  | { name: 'counting' }
  | { name: 'ready'; matched: number; before: string }
  | { name: 'working'; matched: number; left: number | null }
  | { name: 'done'; answer: BulkAnswer }

const PROGRESS_PERIOD_MS = 1000

/**
 * Acts on everything that a filter selects: first it says how many that are, then it acts on these and shows how far
 * it is. The dialog may be closed meanwhile; a message says when it is done.
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
  noun: string
  bulk: BulkAction
  filter: Record<string, unknown>
  /** The filter in words. */
  words: ReactNode
  commands: () => Commands
  onClose: () => void
  refresh: () => void
}) {
  const client = useQueryClient()
  const [step, setStep] = useState<Step>({ name: 'counting' })
  const [error, setError] = useState<unknown>(null)
  const [reason, setReason] = useState('')
  const given = JSON.stringify(filter)

  useEffect(() => {
    const abort = new AbortController()
    const body = { action: bulk.action, filter: JSON.parse(given) as object, dryRun: true }
    request<BulkAnswer>('POST', path, { body, signal: abort.signal })
      .then(answer => setStep({ name: 'ready', matched: answer.matched, before: answer.createdBefore }))
      .catch((cause: unknown) => {
        if (!abort.signal.aborted) setError(cause)
      })
    return () => abort.abort()
  }, [path, bulk.action, given])

  const act = async (matched: number, before: string) => {
    setError(null)
    setStep({ name: 'working', matched, left: bulk.counts === true ? matched : null })
    // Runs that are created from now on are not meant: a replay would otherwise find its own runs.
    const bounded = path === '/v1/runs:bulk' && before !== '' ? { ...filter, createdBefore: before } : filter
    const stopCounting =
      bulk.counts === true
        ? watch(path, bulk.action, bounded, left => setStep(now => (now.name === 'working' ? { ...now, left } : now)))
        : () => {}
    try {
      const body = {
        action: bulk.action,
        filter: bounded,
        dryRun: false,
        ...(reason.trim() === '' ? {} : { reason: reason.trim() }),
      }
      const answer = await request<BulkAnswer>('POST', path, { body })
      setStep({ name: 'done', answer })
      toast.done(`${plural(answer.changed, noun)} ${bulk.done}`)
    } catch (cause) {
      setError(cause)
      setStep({ name: 'ready', matched, before })
      toast.error(`Could not ${bulk.action} all ${noun}s`, cause)
    } finally {
      stopCounting()
      refresh()
      void client.invalidateQueries()
    }
  }

  const matched = step.name === 'ready' ? step.matched : 0
  return (
    <Dialog
      open
      onClose={onClose}
      title={
        step.name === 'done'
          ? `${plural(step.answer.changed, noun)} ${bulk.done}`
          : `${bulk.verb} all ${noun}s that match`
      }
      footer={
        <>
          <CopyAs commands={commands} />
          <span className="flex-1" />
          <Button onClick={onClose}>
            {step.name === 'done' || step.name === 'working' ? 'Close' : 'Keep as it is'}
          </Button>
          {step.name !== 'done' && (
            <Button
              look={bulk.danger === true ? 'danger' : 'primary'}
              busy={step.name === 'working'}
              disabled={step.name !== 'ready' || matched === 0}
              onClick={() => step.name === 'ready' && void act(step.matched, step.before)}
            >
              {step.name === 'ready' ? `${bulk.verb} ${plural(matched, noun)}` : bulk.verb}
            </Button>
          )}
        </>
      }
    >
      <div className="grid gap-4 text-sm">
        {step.name !== 'done' && (
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
              {step.matched === 1 ? noun : `${noun}s`} {step.matched === 1 ? 'matches' : 'match'} now.
            </p>
            <p className="text-ink-2">{bulk.meaning}</p>
            {bulk.reason === true && (
              <Field label="Reason" hint={`Shown wherever one of these ${noun}s is.`}>
                {control => (
                  <Input
                    {...control}
                    value={reason}
                    maxLength={500}
                    onChange={event => setReason(event.target.value)}
                  />
                )}
              </Field>
            )}
          </>
        )}
        {step.name === 'working' && <Progress matched={step.matched} left={step.left} />}
        {step.name === 'done' && <Result answer={step.answer} noun={noun} done={bulk.done} />}
        {error !== null && <ErrorNotice error={error} />}
      </div>
    </Dialog>
  )
}

/** Counts again and again how many are left. */
function watch(path: string, action: string, filter: object, onLeft: (left: number) => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let stopped = false
  const ask = async () => {
    try {
      const answer = await request<BulkAnswer>('POST', path, { body: { action, filter, dryRun: true } })
      if (!stopped) onLeft(answer.matched)
    } catch {
      // The action itself says what is wrong.
    }
    if (!stopped) timer = setTimeout(() => void ask(), PROGRESS_PERIOD_MS)
  }
  timer = setTimeout(() => void ask(), PROGRESS_PERIOD_MS)
  return () => {
    stopped = true
    clearTimeout(timer)
  }
}

function Progress({ matched, left }: { matched: number; left: number | null }) {
  const part = left === null || matched === 0 ? null : Math.min(1, Math.max(0, 1 - left / matched))
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
        {part === null ? `Working on ${count(matched)}` : `${count(Math.round(part * matched))} of ${count(matched)}`}.
        You may close this: it ends by itself, and a message says so.
      </p>
    </div>
  )
}

function Result({ answer, noun, done }: { answer: BulkAnswer; noun: string; done: string }) {
  return (
    <div className="grid gap-2">
      <p>
        {plural(answer.changed, noun)} {done}
        {answer.skipped > 0 && `, ${count(answer.skipped)} left as they were`}
        {answer.failed.length > 0 && `, ${count(answer.failed.length)} refused`}.
      </p>
      {answer.failed.length > 0 && (
        <ul className="max-h-48 overflow-auto rounded-md border text-xs" tabIndex={0} aria-label="Refused">
          {answer.failed.slice(0, 200).map(item => (
            <li key={item.runId} className="border-b px-3 py-1.5 [overflow-wrap:anywhere] last:border-0">
              <code className="font-mono">{item.runId}</code> {item.error.detail}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
