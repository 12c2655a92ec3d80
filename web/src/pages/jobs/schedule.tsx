import type { Job } from '@/api/types'
import { Time } from '@/components/time'

/** When a job is due, in a few words. */
export function ScheduleText({ job }: { job: Pick<Job, 'schedule'> }) {
  const { schedule } = job
  const zone =
    schedule.timezone === undefined || schedule.timezone === 'UTC' ? null : (
      <span className="text-ink-3"> {schedule.timezone}</span>
    )
  switch (schedule.type) {
    case 'cron':
      return (
        <>
          <code className="font-mono text-xs">{schedule.expression}</code>
          {zone}
        </>
      )
    case 'interval':
      return <>every {typeof schedule.expression === 'number' ? `${schedule.expression} s` : schedule.expression}</>
    case 'date':
      return <Time at={typeof schedule.expression === 'string' ? schedule.expression : null} />
    case 'window':
      return (
        <>
          once in {schedule.from}–{schedule.to}
          {zone}
        </>
      )
    case 'follow':
      return <span className="bidi-plain">after {schedule.job}</span>
    default:
      return <span className="text-ink-2">once, at creation</span>
  }
}

/** `http`, `shell`, …; a workflow and a registered task have no kind of their own. */
export function kindOf(job: Job): string {
  if (job.task === undefined || job.task === null) return job.taskId === undefined ? 'workflow' : 'task'
  return 'kind' in job.task ? String(job.task.kind) : 'workflow'
}
