import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'
import type { LettersFilter } from './search'
import { selectionOf } from './search'

type What = {
  runIds?: readonly string[]
  filter?: LettersFilter
  fingerprint?: string | undefined
  edit?: object | undefined
}

/** Returns the commands that retry or discard runs, a group, or the runs of a filter. */
export function letterCommands(action: 'retry' | 'discard', what: What): Commands {
  const byId = what.runIds !== undefined
  const filter = what.filter ?? {}
  const body = {
    ...(byId ? { runIds: what.runIds } : { filter: selectionOf(filter, what.fingerprint) }),
    ...(what.edit === undefined ? {} : { edit: what.edit }),
  }
  const nothing = !byId && what.fingerprint === undefined && Object.keys(filter).length === 0
  return {
    curl: curl('POST', String(apiUrl(`/v1/dead-letters:${action}`)), body),
    cli: cli(['dead', action, ...(what.runIds ?? [])], {
      group: what.fingerprint,
      job: filter.jobId,
      tag: filter.tag,
      'task-id': filter.taskId,
      'user-id': filter.userId,
      from: filter.startTime,
      to: filter.endTime,
      all: nothing,
      edit: what.edit === undefined ? undefined : JSON.stringify(what.edit),
    }),
    python: python(action === 'retry' ? 'retry_dead' : 'discard_dead', byId ? [what.runIds] : [], {
      fingerprint: what.fingerprint,
      job_id: filter.jobId,
      tag: filter.tag,
      task_id: filter.taskId,
      user_id: filter.userId,
      all: nothing ? true : undefined,
      edit: what.edit,
    }),
  }
}
