import { type BulkAction, BulkDialog } from '@/components/bulk-dialog'
import { type Commands, cli, curl, python } from '@/lib/quote'
import { JOB_STATES } from '@/lib/states'
import { apiUrl } from '@/lib/url'
import type { IconName } from '@/ui/icon'
import type { JobsSearch } from './search'

export const JOB_ACTIONS = {
  pause: {
    action: 'pause',
    verb: 'Pause',
    done: 'paused',
    counts: true,
    reason: true,
    icon: 'pause',
    meaning: 'They do not fire until they are resumed. What runs already runs to its end.',
  },
  resume: {
    action: 'resume',
    verb: 'Resume',
    done: 'resumed',
    counts: true,
    icon: 'undo',
    meaning: 'They fire again. Fires that were missed are caught up by the rule of each job.',
  },
  run: {
    action: 'run',
    verb: 'Run',
    done: 'started',
    icon: 'play',
    meaning: 'Each gets one run now, in addition to its schedule. The rule for overlap applies.',
  },
  cancel: {
    action: 'cancel',
    verb: 'Cancel',
    done: 'cancelled',
    counts: true,
    danger: true,
    icon: 'stop',
    meaning: 'Their schedules end and their live runs are cancelled. The history stays. This cannot be taken back.',
  },
} satisfies Record<string, BulkAction & { icon: IconName }>

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
      filter={search}
      words={filterWords(search)}
      commands={() => bulkCommands(name, search)}
      onClose={onClose}
      refresh={refresh}
    />
  )
}

export function filterWords(search: JobsSearch): string {
  const parts = [
    search.q === undefined ? undefined : `“${search.q}” in the name`,
    search.status?.map(status => JOB_STATES[status].label.toLowerCase()).join(' or '),
    search.tag === undefined ? undefined : `with the tag ${search.tag}`,
    search.kind === undefined ? undefined : `of the kind ${search.kind}`,
    search.userId === undefined ? undefined : `of ${search.userId}`,
    search.scheduleType === undefined ? undefined : `with a schedule of the type ${search.scheduleType}`,
  ].filter(part => part !== undefined)
  return parts.length === 0 ? 'No filter: all jobs' : parts.join(', ')
}

function bulkCommands(name: JobActionName, search: JobsSearch): Commands {
  return {
    curl: curl('POST', apiUrl('/v1/jobs:bulk'), { action: name, filter: search }),
    cli: cli(['jobs', 'bulk', name], {
      q: search.q,
      status: search.status?.join(','),
      tag: search.tag,
      kind: search.kind,
      'user-id': search.userId,
      'schedule-type': search.scheduleType,
    }),
    python: python('bulk_jobs', [name], {
      q: search.q,
      status: search.status?.join(','),
      tag: search.tag,
      kind: search.kind,
      user_id: search.userId,
      schedule_type: search.scheduleType,
    }),
  }
}
