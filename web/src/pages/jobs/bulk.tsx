import type { JobStatus } from '@/api/types'
import { type BulkAction, BulkDialog, type PauseWords } from '@/components/bulk-dialog'
import { type Commands, cli, curl, python } from '@/lib/quote'
import { compact } from '@/lib/search'
import { JOB_STATES } from '@/lib/states'
import { apiUrl } from '@/lib/url'
import type { IconName } from '@/ui/icon'
import type { JobsSearch } from './search'

export const JOB_ACTIONS = {
  pause: {
    action: 'pause',
    verb: 'Pause',
    done: 'paused',
    pause: true,
    statuses: ['scheduled', 'paused', 'completed'],
    usual: 'scheduled',
    icon: 'pause',
    meaning: 'They do not fire until they are resumed. What runs already runs to its end.',
  },
  resume: {
    action: 'resume',
    verb: 'Resume',
    done: 'resumed',
    statuses: ['paused'],
    usual: 'paused',
    icon: 'undo',
    meaning: 'They fire again. Fires that were missed are caught up by the rule of each job.',
  },
  run: {
    action: 'run',
    verb: 'Run',
    done: 'started',
    statuses: ['scheduled', 'paused', 'completed'],
    usual: 'scheduled',
    icon: 'play',
    meaning: 'Each gets one run now, in addition to its schedule. The rule for overlap applies.',
  },
  cancel: {
    action: 'cancel',
    verb: 'Cancel',
    done: 'cancelled',
    statuses: ['scheduled', 'paused', 'completed'],
    usual: 'scheduled or paused',
    danger: true,
    icon: 'stop',
    meaning: 'Their schedules end and their live runs are cancelled. The history stays. This cannot be taken back.',
  },
} satisfies Record<string, JobAction>

type JobAction = BulkAction & {
  icon: IconName
  /** The statuses that a job must have for this action. */
  statuses: readonly JobStatus[]
  /** The statuses that the API selects if the filter names none. */
  usual: string
}

export type JobActionName = keyof typeof JOB_ACTIONS

export function JobsBulk({
  name,
  search,
  onClose,
  refresh,
}: {
  name: JobActionName
  search: JobsSearch
  onClose: () => void
  refresh: () => void
}) {
  return (
    <BulkDialog
      path="/v1/jobs:bulk"
      noun="job"
      bulk={JOB_ACTIONS[name]}
      filter={bulkFilter(search)}
      words={filterWords(search, JOB_ACTIONS[name].usual)}
      commands={pause => bulkCommands(name, search, pause)}
      onClose={onClose}
      refresh={refresh}
    />
  )
}

/** Returns why an action cannot apply to any job of the filter. */
export function whyNot(name: JobActionName, search: JobsSearch): string | undefined {
  const possible: readonly JobStatus[] = JOB_ACTIONS[name].statuses
  const wrong = search.status?.filter(status => !possible.includes(status)) ?? []
  if (wrong.length === 0) return undefined
  const words = wrong.map(status => JOB_STATES[status].label.toLowerCase()).join(' or ')
  return `The filter has jobs that are ${words}.`
}

/** Returns the filter as the body of a request. Without any field, the body must state that it selects all jobs. */
export function bulkFilter(search: JobsSearch): Record<string, unknown> {
  const fields = compact(search)
  return Object.keys(fields).length === 0 ? { all: true } : fields
}

/** Returns the filter as a sentence. `usual` names the statuses that the API selects if the filter names none. */
export function filterWords(search: JobsSearch, usual: string): string {
  const status = search.status?.map(name => JOB_STATES[name].label.toLowerCase()).join(' or ') ?? usual
  const parts = [
    search.q === undefined ? undefined : `with “${search.q}” in the name`,
    search.tag === undefined ? undefined : `with the tag ${search.tag}`,
    search.kind === undefined ? undefined : `of the kind ${search.kind}`,
    search.userId === undefined ? undefined : `of ${search.userId}`,
    search.scheduleType === undefined ? undefined : `with a schedule of the type ${search.scheduleType}`,
  ].filter(part => part !== undefined)
  const jobs = `${status.charAt(0).toUpperCase()}${status.slice(1)} jobs`
  if (parts.length > 0) return `${jobs} ${parts.join(', ')}`
  return search.status === undefined ? `All ${status} jobs` : jobs
}

export function bulkCommands(name: JobActionName, search: JobsSearch, pause: PauseWords = {}): Commands {
  const isEmpty = Object.keys(compact(search)).length === 0
  return {
    curl: curl('POST', apiUrl('/v1/jobs:bulk'), { action: name, filter: bulkFilter(search), ...pause }),
    cli: cli(['jobs', 'bulk', name], {
      search: search.q,
      status: search.status?.join(','),
      tag: search.tag,
      kind: search.kind,
      'user-id': search.userId,
      'schedule-type': search.scheduleType,
      all: isEmpty,
      reason: pause.reason,
      until: pause.until,
    }),
    python: python('bulk_jobs', [name], {
      q: search.q,
      status: search.status?.join(','),
      tag: search.tag,
      kind: search.kind,
      user_id: search.userId,
      schedule_type: search.scheduleType,
      everything: isEmpty ? true : undefined,
      reason: pause.reason,
      until: pause.until,
    }),
  }
}
