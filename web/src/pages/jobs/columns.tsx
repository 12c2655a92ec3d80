import { api } from '@/api/client'
import { useDenied } from '@/api/session'
import type { JobRow } from '@/api/types'
import type { Column } from '@/components/data-table'
import { RowLink } from '@/components/row-link'
import { RunStrip } from '@/components/run-strip'
import { StateBadge, StateIcon } from '@/components/state'
import { Countdown } from '@/components/time'
import { RowButton } from '@/ui/button'
import { toast } from '@/ui/toast'
import { kindOf, ScheduleText } from './schedule'

export const JOB_COLUMNS: readonly Column<JobRow>[] = [
  {
    id: 'name',
    header: 'Job',
    width: 'minmax(11rem, 2fr)',
    cell: job => (
      <span className="flex items-center gap-2">
        <StateIcon job={job.status} />
        <JobLink job={job} />
      </span>
    ),
  },
  { id: 'schedule', header: 'Schedule', width: 'minmax(9rem, 1.4fr)', cell: job => <ScheduleText job={job} /> },
  { id: 'next', header: 'Next fire', width: '6.5rem', align: 'right', cell: job => <NextFire job={job} /> },
  { id: 'runs', header: 'Last runs', width: '9.25rem', cell: job => <RunStrip runs={job.recentRuns ?? []} /> },
  {
    id: 'kind',
    header: 'Kind',
    width: '5rem',
    minTable: 900,
    cell: job => <span className="text-ink-2">{kindOf(job)}</span>,
  },
  { id: 'tags', header: 'Tags', width: 'minmax(6rem, 1fr)', minTable: 1040, cell: job => <Tags tags={job.tags} /> },
  {
    id: 'owner',
    header: 'Owner',
    width: '7rem',
    minTable: 1180,
    cell: job => <span className="bidi-plain text-ink-2">{job.userId}</span>,
  },
  {
    id: 'actions',
    header: <span className="sr-only">Actions</span>,
    width: '4.25rem',
    align: 'right',
    minTable: 760,
    cell: job => <JobActions job={job} />,
  },
]

function JobLink({ job }: { job: JobRow }) {
  return (
    <RowLink
      to={`jobs/${job.jobId}`}
      title={job.description || undefined}
      className="bidi-plain min-w-0 truncate font-medium hover:text-accent hover:underline"
    >
      {job.name || job.jobId}
    </RowLink>
  )
}

function NextFire({ job }: { job: JobRow }) {
  if (job.status === 'paused')
    return (
      <span title={job.pauseReason} className="text-ink-2">
        paused
      </span>
    )
  return <Countdown at={job.nextFireAt} />
}

const MAX_SHOWN_TAGS = 3

function Tags({ tags }: { tags: readonly string[] }) {
  return (
    <span className="inline-flex max-w-full gap-1 overflow-hidden">
      {tags.slice(0, MAX_SHOWN_TAGS).map(tag => (
        <RowLink
          key={tag}
          to={`jobs?tag=${encodeURIComponent(tag)}`}
          className="bidi-plain max-w-28 truncate rounded-sm bg-hover px-1.5 text-ink-2 text-xs hover:text-ink"
        >
          {tag}
        </RowLink>
      ))}
      {tags.length > MAX_SHOWN_TAGS && <span className="text-ink-3 text-xs">+{tags.length - MAX_SHOWN_TAGS}</span>}
    </span>
  )
}

/** The buttons to run, pause or resume a job, shown while the pointer or the focus is on its row. */
function JobActions({ job }: { job: JobRow }) {
  const denied = useDenied('run')
  if (denied !== undefined || job.status === 'cancelled') return null
  const path = { jobId: job.jobId }
  const act = async (call: () => Promise<unknown>, done: () => void) => {
    try {
      await call()
      done()
    } catch (error) {
      toast.error(`Not done for ${job.name || job.jobId}`, error)
    }
  }
  const resume = () =>
    void act(
      () => api.post('/v1/jobs/{jobId}/resume', { path }),
      () => toast.done(`Resumed ${job.name}`),
    )
  const pause = () =>
    void act(
      () => api.post('/v1/jobs/{jobId}/pause', { path, body: {} }),
      () => toast.undo(`Paused ${job.name}`, resume),
    )
  const run = () =>
    void act(
      () => api.post('/v1/jobs/{jobId}/run', { path }),
      () => toast.done(`Started a run of ${job.name}`),
    )
  return (
    <span className="inline-flex">
      <RowButton label="Run now" icon="play" onClick={run} />
      {job.status === 'paused' && <RowButton label="Resume" icon="undo" onClick={resume} />}
      {job.status === 'scheduled' && <RowButton label="Pause" icon="pause" onClick={pause} />}
    </span>
  )
}

/** A row on a narrow screen, in two lines. */
export function CompactJob({ job }: { job: JobRow }) {
  return (
    <div className="flex items-center gap-3">
      <div className="grid min-w-0 flex-1 gap-0.5">
        <span className="flex items-center gap-2">
          <StateIcon job={job.status} />
          <JobLink job={job} />
        </span>
        <span className="truncate pl-5.5 text-ink-2 text-xs">
          <ScheduleText job={job} />
        </span>
      </div>
      <div className="grid shrink-0 justify-items-end gap-0.5 text-xs">
        {job.status === 'scheduled' ? <Countdown at={job.nextFireAt} /> : <StateBadge job={job.status} />}
        <RunStrip runs={job.recentRuns ?? []} className="max-w-32 overflow-hidden" />
      </div>
    </div>
  )
}
