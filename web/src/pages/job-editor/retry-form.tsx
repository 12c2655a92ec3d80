import { duration } from '@/lib/time'
import { Field, Segments } from '@/ui/field'
import type { Editor } from './editor'
import { NumberValue, TextValue, WordsValue } from './fields'
import { retryDelays, rulesOf } from './model/retry'

const BACKOFFS = [
  { value: 'exponential', label: 'Doubles' },
  { value: 'linear', label: 'Grows' },
  { value: 'fixed', label: 'Stays' },
  { value: 'list', label: 'List' },
] as const

const SHOWN_DELAYS = 12

/** The form for retries, with the delays that follow from its values. */
export function RetryForm({ editor }: { editor: Editor }) {
  const backoff = editor.value('/retry/backoff')
  const isList = Array.isArray(backoff)
  const chosen = isList ? 'list' : (BACKOFFS.find(item => item.value === backoff)?.value ?? 'exponential')
  return (
    <div className="grid grid-cols-1 gap-4">
      <div className="flex flex-wrap items-start gap-4">
        <NumberValue editor={editor} at="/retry/maxRetries" label="Retries" placeholder="3" className="w-20" />
        <Field label="Delay" error={isList ? undefined : editor.error('/retry/backoff')}>
          {() => (
            <Segments
              label="How the delay changes"
              value={chosen}
              onChange={next =>
                editor.set(
                  '/retry/backoff',
                  next === 'exponential' ? undefined : next === 'list' ? ['10s', '1m', '10m'] : next,
                )
              }
              options={BACKOFFS}
            />
          )}
        </Field>
        {isList ? (
          <WordsValue
            editor={editor}
            at="/retry/backoff"
            label="Delays"
            hint="The last one repeats."
            className="min-w-40 flex-1"
          />
        ) : (
          <TextValue editor={editor} at="/retry/base" label="Base" placeholder="5s" className="w-20" />
        )}
        <TextValue editor={editor} at="/retry/cap" label="At most" placeholder="1h" className="w-20" />
      </div>
      <RetryPreview editor={editor} />
      <details className="text-sm">
        <summary className="text-ink-2">Failures that are not retried</summary>
        <div className="mt-2 grid gap-4 sm:grid-cols-3">
          <WordsValue
            editor={editor}
            at="/retry/nonRetryable/exitCodes"
            label="Exit codes"
            placeholder="2, 64"
            numbers
          />
          <WordsValue
            editor={editor}
            at="/retry/nonRetryable/statuses"
            label="HTTP statuses"
            placeholder="400, 404"
            numbers
          />
          <WordsValue
            editor={editor}
            at="/retry/nonRetryable/exceptions"
            label="Python exceptions"
            placeholder="ValueError"
          />
        </div>
      </details>
    </div>
  )
}

function RetryPreview({ editor }: { editor: Editor }) {
  const rules = rulesOf(editor.value('/retry'))
  const delays = retryDelays(rules)
  if (delays === null)
    return <p className="text-ink-2 text-sm">A duration is a number with a unit: 500ms, 90s, 15m, 1h30m.</p>
  if (delays.length === 0) return <p className="text-ink-2 text-sm">The first failure is final.</p>
  const shown = delays.slice(0, SHOWN_DELAYS)
  const longest = Math.max(...shown.map(delay => delay.ms), 1)
  const varies = delays.some(delay => delay.most > delay.least)
  return (
    <div className="grid gap-1.5">
      <ol className="flex items-end gap-1 overflow-x-auto pb-1" aria-label="Delays before each retry" tabIndex={0}>
        {shown.map(delay => (
          <li key={delay.retry} className="grid min-w-14 flex-1 justify-items-center gap-0.5 text-center">
            <span className="text-2xs text-ink-2">
              {duration(delay.ms)}
              {delay.capped && <span className="sr-only"> (the most)</span>}
            </span>
            <span className="flex h-9 w-full items-end">
              <span
                style={{ height: `${Math.max(6, (delay.ms / longest) * 100)}%` }}
                className={`w-full rounded-t-sm ${delay.capped ? 'bg-line-strong' : 'bg-accent'}`}
              />
            </span>
            <span className="text-2xs text-ink-3">{delay.retry}</span>
          </li>
        ))}
        {delays.length > shown.length && (
          <li className="self-center px-2 text-ink-3 text-xs">+{delays.length - shown.length}</li>
        )}
      </ol>
      <p className="text-ink-2 text-xs">
        The last retry starts at most {duration(delays.at(-1)?.until ?? 0)} after the first failure, plus the time that
        the attempts take. Then the run is dead.
        {varies && ' Each delay varies by 10 %.'}
      </p>
    </div>
  )
}
