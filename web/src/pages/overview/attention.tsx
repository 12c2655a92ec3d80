import { Link } from '@tanstack/react-router'
import type { Attention } from '@/api/types'
import { RelativeTime, Sentence } from '@/components/time'
import { JOB_STATES, RUN_STATES, type StateLook, TONE_TEXT, VERDICTS, WORKER_STATES } from '@/lib/states'
import { count } from '@/lib/time'
import { Icon } from '@/ui/icon'

const LOOKS: Record<Attention['kind'], StateLook> = {
  dead: RUN_STATES.dead,
  late: VERDICTS.late,
  failing: RUN_STATES.failed,
  paused: JOB_STATES.paused,
  workerLost: WORKER_STATES.lost,
  unplaceable: RUN_STATES.blocked,
}

/** The items that need the attention of a user, the most urgent first. */
export function AttentionList({ items }: { items: readonly Attention[] }) {
  if (items.length === 0)
    return (
      <p className="flex items-center gap-2 px-4 py-4 text-ink-2 text-sm">
        <Icon name="state-ok" className="text-ok" /> Everything is all right.
      </p>
    )
  return (
    <ul className="max-h-96 overflow-auto" tabIndex={0} aria-label="Needs attention">
      {items.map((item, at) => (
        <li key={`${item.kind}-${item.jobId ?? ''}-${item.runId ?? ''}-${at}`} className="border-b last:border-0">
          <Target item={item}>
            <Icon name={LOOKS[item.kind].icon} className={`mt-0.5 shrink-0 ${TONE_TEXT[LOOKS[item.kind].tone]}`} />
            <span className="min-w-0 flex-1">
              <span className="bidi-plain line-clamp-2 text-sm [overflow-wrap:anywhere]">
                {item.jobName !== null && <strong className="font-medium">{item.jobName}: </strong>}
                <Sentence text={item.message} />
              </span>
              {item.since !== null && <RelativeTime at={item.since} className="text-ink-3 text-xs" />}
            </span>
            {item.count > 1 && (
              <span className="shrink-0 rounded-full bg-hover px-1.5 text-xs">{count(item.count)}</span>
            )}
          </Target>
        </li>
      ))}
    </ul>
  )
}

function Target({ item, children }: { item: Attention; children: React.ReactNode }) {
  const look = 'flex items-start gap-2.5 px-4 py-2 hover:bg-hover'
  if (item.kind === 'workerLost')
    return (
      <Link to="/workers" className={look}>
        {children}
      </Link>
    )
  if (item.kind === 'dead' && item.runId === null)
    return (
      <Link to="/dead-letters" search={item.jobId === null ? {} : { jobId: item.jobId }} className={look}>
        {children}
      </Link>
    )
  if (item.runId !== null)
    return (
      <Link to="/runs/$runId" params={{ runId: item.runId }} className={look}>
        {children}
      </Link>
    )
  if (item.jobId !== null)
    return (
      <Link to="/jobs/$jobId" params={{ jobId: item.jobId }} className={look}>
        {children}
      </Link>
    )
  return (
    <Link to="/jobs" search={item.kind === 'paused' ? { status: ['paused'] } : {}} className={look}>
      {children}
    </Link>
  )
}
