import type { Job } from '@/api/types'
import { Time } from '@/components/time'

/** Describes in a few words when a job fires. */
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

/**
 * Returns the task kind of a job, such as `http`. Returns `workflow` for a workflow and `task` for a job with a
 * registered task.
 */
export function kindOf(job: Job): string {
  if (job.task === undefined || job.task === null) return job.taskId === undefined ? 'workflow' : 'task'
  return 'kind' in job.task ? String(job.task.kind) : 'workflow'
}
