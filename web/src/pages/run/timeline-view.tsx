import type { Run } from '@/api/types'
import { Duration, Time } from '@/components/time'
import { Section } from '@/layout/page'
import { useNow } from '@/lib/clock'
import { isTerminal, TONE_FILL } from '@/lib/states'
import { duration } from '@/lib/time'
import { cx } from '@/ui/cx'
import { latenessParts, PART_TEXT, type Part, type Segment, type SegmentKind, type Step, timelineOf } from './timeline'

/**
 * Shows a run from its fire to its end: proportional bars, the steps with their times, and the parts of the lateness.
 */
export function TimelineSection({ run }: { run: Run }) {
  return (
    <Section
      title="Timeline"
      aside={
        <span className="text-ink-2 text-sm">
          <Total run={run} />
        </span>
      }
    >
      {isTerminal(run.status) ? <Drawn run={run} now={0} /> : <Live run={run} />}
    </Section>
  )
}

function Total({ run }: { run: Run }) {
  if (run.startTime === null) return null
  return (
    <>
      ran <Duration from={run.startTime} to={run.endTime} className="font-medium text-ink" />
    </>
  )
}

function Live({ run }: { run: Run }) {
  return <Drawn run={run} now={useNow()} />
}

function Drawn({ run, now }: { run: Run; now: number }) {
  const line = timelineOf(run, now)
  return (
    <div className="@container grid gap-5 p-4">
      {line.segments.length > 0 && <Bars segments={line.segments} from={line.from} to={line.to} />}
      <div className="grid gap-x-8 gap-y-5 @2xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <Steps steps={line.steps} />
        <Lateness run={run} />
      </div>
    </div>
  )
}

const SEGMENT_TEXT: Record<SegmentKind, string> = {
  scheduler: 'Scheduler',
  blocked: 'Blocked',
  queue: 'Queue',
  worker: 'Worker',
  waiting: 'Waiting',
  attempt: 'Attempt',
  between: 'Until the next attempt',
}

function segmentFill(segment: Segment): string {
  if (segment.kind === 'attempt') return segment.failed ? 'bg-bad' : segment.running ? 'bg-live' : 'bg-ok'
  if (segment.kind === 'between') return 'border-line-strong border-y border-dashed bg-transparent'
  return PART_FILL[segment.kind === 'waiting' ? 'queue' : segment.kind]
}

const PART_FILL: Record<Part, string> = {
  scheduler: 'bg-idle',
  blocked: 'bg-missed',
  queue: 'bg-late',
  worker: 'bg-accent',
}

/** The segments in percent of the width. Each has a minimum width, so that it is visible. */
function Bars({ segments, from, to }: { segments: readonly Segment[]; from: number; to: number }) {
  const whole = Math.max(1, to - from)
  const text = segments
    .map(
      item =>
        `${SEGMENT_TEXT[item.kind]}${item.attempt === null ? '' : ` ${item.attempt}`} ${duration(item.to - item.from)}`,
    )
    .join(', ')
  return (
    <div>
      <div role="img" aria-label={text} className="relative h-7 rounded-sm bg-sunken">
        {segments.map(item => {
          const width = ((item.to - item.from) / whole) * 100
          return (
            <div
              key={`${item.kind}-${item.from}-${item.attempt}`}
              title={`${SEGMENT_TEXT[item.kind]}${item.attempt === null ? '' : ` ${item.attempt}`}: ${duration(item.to - item.from)}`}
              style={{ left: `${((item.from - from) / whole) * 100}%`, width: `max(2px, ${width}%)` }}
              className={cx(
                'absolute inset-y-0 flex items-center justify-center overflow-hidden rounded-[2px]',
                segmentFill(item),
                item.running && 'motion-safe:animate-skeleton',
              )}
            >
              {width > 12 && (
                <span
                  className={cx(
                    'truncate px-1.5 font-medium text-xs',
                    item.kind === 'between' ? 'text-ink-3' : 'text-surface dark:text-sunken',
                  )}
                >
                  {item.attempt !== null && segments.filter(other => other.kind === 'attempt').length > 1
                    ? `${item.attempt} · `
                    : ''}
                  {duration(item.to - item.from)}
                </span>
              )}
            </div>
          )
        })}
      </div>
      <div className="mt-1 flex justify-between text-ink-3 text-xs">
        <Time at={from} />
        <Time at={to} />
      </div>
    </div>
  )
}

function Steps({ steps }: { steps: readonly Step[] }) {
  return (
    <ol className="min-w-0">
      {steps.map((step, index) => (
        <li key={step.id} className="relative grid grid-cols-[1rem_minmax(0,1fr)_auto] gap-x-2 pb-2 last:pb-0">
          {index < steps.length - 1 && (
            <span
              aria-hidden="true"
              className="absolute top-3.5 bottom-[-0.375rem] left-[0.3125rem] w-px bg-line-strong"
            />
          )}
          <span
            aria-hidden="true"
            className={cx('relative mt-1.5 size-2.5 rounded-full border-2 border-surface', TONE_FILL[step.tone])}
          />
          <div className="min-w-0 text-sm">
            <span className="font-medium">{step.label}</span>
            {step.detail !== '' && (
              <span className="bidi-plain ml-2 line-clamp-2 inline text-ink-2 [overflow-wrap:anywhere]">
                {step.detail.length > 300 ? `${step.detail.slice(0, 300)} …` : step.detail}
              </span>
            )}
          </div>
          <div className="text-right text-sm">
            <Time at={step.at} />
            <span className="ml-2 inline-block min-w-16 text-ink-3 text-xs">
              {step.after === null ? '' : afterText(step.after)}
            </span>
          </div>
        </li>
      ))}
    </ol>
  )
}

function Lateness({ run }: { run: Run }) {
  const split = latenessParts(run)
  if (split === null)
    return run.startTime === null && !isTerminal(run.status) ? (
      <p className="text-ink-3 text-sm">How late it starts, and why, is shown here when it has started.</p>
    ) : null
  return (
    <div className="min-w-0">
      <div className="flex items-baseline justify-between gap-2">
        <h3 className="label">Start lateness</h3>
        <span className="font-medium text-sm">{duration(split.total)}</span>
      </div>
      <div aria-hidden="true" className="my-2 flex h-2 gap-px overflow-hidden rounded-sm bg-sunken">
        {split.parts
          .filter(item => item.share > 0)
          .map(item => (
            <span key={item.part} style={{ width: `${item.share * 100}%` }} className={PART_FILL[item.part]} />
          ))}
      </div>
      <dl className="grid grid-cols-[minmax(0,1fr)_auto] gap-y-1 text-sm">
        {split.parts.map(item => (
          <div key={item.part} className="col-span-2 grid grid-cols-subgrid" title={PART_TEXT[item.part].meaning}>
            <dt className="flex items-center gap-2 text-ink-2">
              <span aria-hidden="true" className={cx('size-2 rounded-[2px]', PART_FILL[item.part])} />
              {PART_TEXT[item.part].label}
            </dt>
            <dd className={cx('text-right', item.ms === 0 && 'text-ink-3')}>{duration(item.ms)}</dd>
          </div>
        ))}
      </dl>
    </div>
  )
}

function afterText(ms: number): string {
  return ms < 1 ? duration(Math.max(0, ms)) : `+${duration(ms)}`
}
