import { type BulkAction, BulkDialog } from '@/components/bulk-dialog'
import { words as rangeWords } from '@/components/range-chip'
import type { Commands } from '@/lib/quote'
import { cli, curl, python } from '@/lib/quote'
import { RUN_STATES } from '@/lib/states'
import { apiUrl } from '@/lib/url'
import { ORIGIN_NAMES } from './columns'
import { useJobName } from './filters'
import { apiFilter, bulkFilter } from './rows'
import type { RunsSearch } from './search'

export const RUN_ACTIONS = {
  retry: {
    action: 'retry',
    verb: 'Retry',
    done: 'retried',
    counts: true,
    meaning:
      'Each of them gets a new run with the same parameters. Without a status in the filter, runs that failed, died or wait for a retry are meant.',
  },
  cancel: {
    action: 'cancel',
    verb: 'Cancel',
    done: 'cancelled',
    counts: true,
    danger: true,
    meaning: 'What waits does not start. What runs is stopped by its worker. This cannot be taken back.',
  },
  replay: {
    action: 'replay',
    verb: 'Replay',
    done: 'replayed',
    meaning: 'Each of them is executed again as a new run, also those that succeeded.',
  },
} satisfies Record<string, BulkAction>

export type RunActionName = keyof typeof RUN_ACTIONS

export function RunsBulk({
  name,
  search,
  onClose,
  refresh,
}: {
  name: RunActionName
  search: RunsSearch
  onClose: () => void
  refresh: () => void
}) {
  const jobName = useJobName(search.jobId)
  return (
    <BulkDialog
      path="/v1/runs:bulk"
      noun="run"
      bulk={RUN_ACTIONS[name]}
      filter={bulkFilter(search)}
      words={filterWords(search, jobName)}
      commands={() => bulkCommands(name, search)}
      onClose={onClose}
      refresh={refresh}
    />
  )
}

/** Returns the filter as a sentence. */
export function filterWords(search: RunsSearch, jobName: string | undefined): string {
  const parts = [
    search.status?.map(status => RUN_STATES[status].label.toLowerCase()).join(' or '),
    jobName === undefined ? undefined : `of the job ${jobName}`,
    search.tag === undefined ? undefined : `with the tag ${search.tag}`,
    search.userId === undefined ? undefined : `of ${search.userId}`,
    search.taskId === undefined ? undefined : `of the task ${search.taskId}`,
    search.origin === undefined
      ? undefined
      : `by ${search.origin.map(origin => ORIGIN_NAMES[origin].toLowerCase()).join(' or ')}`,
    search.fingerprint === undefined ? undefined : `with the error ${search.fingerprint}`,
    rangeWords(search) === null ? undefined : `due ${rangeWords(search)}`,
  ].filter(part => part !== undefined)
  return parts.length === 0 ? 'No filter: all runs' : parts.join(', ')
}

export function bulkCommands(name: RunActionName, search: RunsSearch): Commands {
  const filter = apiFilter(search)
  const text = (key: string) => {
    const value = filter[key]
    return Array.isArray(value) ? value.join(',') : value
  }
  const isEmpty = Object.keys(filter).length === 0
  return {
    curl: curl('POST', apiUrl('/v1/runs:bulk'), { action: name, filter: bulkFilter(search) }),
    cli: cli(['runs', 'bulk', name], {
      status: text('status'),
      origin: text('origin'),
      job: text('jobId'),
      group: text('fingerprint'),
      tag: text('tag'),
      'task-id': text('taskId'),
      'user-id': text('userId'),
      from: text('startTime'),
      to: text('endTime'),
      all: isEmpty,
    }),
    python: python('bulk', [name], {
      status: text('status'),
      origin: text('origin'),
      job_id: text('jobId'),
      fingerprint: text('fingerprint'),
      tag: text('tag'),
      task_id: text('taskId'),
      user_id: text('userId'),
      since: text('startTime'),
      until: text('endTime'),
      everything: isEmpty ? true : undefined,
    }),
  }
}
