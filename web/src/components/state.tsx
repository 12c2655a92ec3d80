import type { JobStatus, RunStatus, Verdict } from '@/api/types'
import {
  JOB_STATES,
  RUN_STATES,
  type StateLook,
  TONE_TEXT,
  VERDICTS,
  WORKER_STATES,
  type WorkerState,
} from '@/lib/states'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'

type Props =
  | { run: RunStatus }
  | { job: JobStatus }
  | { verdict: Verdict }
  | { worker: WorkerState }
  | { look: StateLook }

export function lookOf(props: Props): StateLook {
  if ('run' in props) return RUN_STATES[props.run]
  if ('job' in props) return JOB_STATES[props.job]
  if ('verdict' in props) return VERDICTS[props.verdict]
  if ('worker' in props) return WORKER_STATES[props.worker]
  return props.look
}

/** A state as an icon with its label, such as `<StateBadge run="failed" />`. A state has the same look on all pages. */
export function StateBadge({ className, ...state }: Props & { className?: string }) {
  const look = lookOf(state as Props)
  const moves = 'run' in state && state.run === 'running'
  return (
    <span
      title={look.meaning}
      className={cx('inline-flex items-center gap-1.5 whitespace-nowrap align-top', className)}
    >
      <Icon
        name={look.icon}
        size={14}
        className={cx('shrink-0', TONE_TEXT[look.tone], moves && 'motion-safe:animate-skeleton')}
      />
      {look.label}
    </span>
  )
}

/** The icon of a state, with its label for screen readers. */
export function StateIcon({ size = 14, className, ...state }: Props & { size?: number; className?: string }) {
  const look = lookOf(state as Props)
  return (
    <span
      role="img"
      aria-label={look.label}
      title={look.label}
      className={cx('inline-flex', TONE_TEXT[look.tone], className)}
    >
      <Icon name={look.icon} size={size} />
    </span>
  )
}
