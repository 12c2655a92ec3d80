import { serverNow, useNow } from '@/lib/clock'
import { zone } from '@/lib/settings'
import { countdown, duration, fullDateTime, instant, relative, shortDateTime } from '@/lib/time'

type At = string | number | null | undefined

function millis(at: At): number | null {
  return typeof at === 'number' ? at : instant(at)
}

/** A relative time such as `4 m ago`, with the exact time as tooltip. It updates itself. */
export function RelativeTime({ at, empty = '–', className }: { at: At; empty?: string; className?: string }) {
  const now = useNow()
  const value = millis(at)
  if (value === null) return <span className="text-ink-3">{empty}</span>
  return (
    <time dateTime={new Date(value).toISOString()} className={className}>
      {relative(value, now)}
    </time>
  )
}

/**
 * A time in the chosen zone: `13:05:12`, or the date if it is not today. The tooltip shows the full time and the
 * distance from now.
 */
export function Time({
  at,
  empty = '–',
  full = false,
  className,
}: {
  at: At
  empty?: string
  full?: boolean
  className?: string
}) {
  const shown = zone.use()
  const value = millis(at)
  if (value === null) return <span className="text-ink-3">{empty}</span>
  return (
    <time dateTime={new Date(value).toISOString()} className={className}>
      {full ? fullDateTime(value, shown) : shortDateTime(value, serverNow(), shown)}
    </time>
  )
}

const TIMESTAMP = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/

/** A sentence of the server. Its times, which are UTC, are shown in the chosen zone. */
export function Sentence({ text }: { text: string }) {
  const parts = text.split(TIMESTAMP)
  return parts.map((part, at) => (at % 2 === 1 ? <Time key={at} at={part} /> : part))
}

/** A countdown to a fire, in seconds. It updates itself. */
export function Countdown({ at, empty = '–', className }: { at: At; empty?: string; className?: string }) {
  const now = useNow()
  const value = millis(at)
  if (value === null) return <span className="text-ink-3">{empty}</span>
  return (
    <time dateTime={new Date(value).toISOString()} className={className}>
      {countdown(value, now)}
    </time>
  )
}

/** A duration such as `1.2 s`. With a start and without an end, it updates itself. */
export function Duration({
  ms,
  from,
  to,
  empty = '–',
  className,
}: {
  ms?: number | null | undefined
  from?: At
  to?: At
  empty?: string
  className?: string
}) {
  const start = millis(from)
  const end = millis(to)
  if (ms !== null && ms !== undefined) return <span className={className}>{duration(ms)}</span>
  if (start === null) return <span className="text-ink-3">{empty}</span>
  if (end === null) return <Running from={start} className={className} />
  return <span className={className}>{duration(Math.max(0, end - start))}</span>
}

function Running({ from, className }: { from: number; className?: string | undefined }) {
  const now = useNow()
  return <span className={className}>{duration(Math.max(0, Math.floor((now - from) / 1000) * 1000))}</span>
}
