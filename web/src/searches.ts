import { compact, text } from './lib/search'

/** Search parameters of pages that are loaded later. */

export type OpenSearch = Record<string, string | string[] | undefined>

/** Any parameters: the page reads what it knows with the readers of lib/search. */
export function openSearch(raw: Record<string, unknown>): OpenSearch {
  return raw as OpenSearch
}

export type JobEditorSearch = {
  from?: string | undefined
  clone?: string | undefined
  template?: string | undefined
  task?: string | undefined
  calendar?: string | undefined
}

/**
 * `from` (or `clone`): the id of a job whose definition the form begins with. `task` and `calendar`: names of a
 * registered task and of a calendar that a new job refers to.
 */
export function jobEditorSearch(raw: Record<string, unknown>): JobEditorSearch {
  return compact({
    from: text(raw, 'from'),
    clone: text(raw, 'clone'),
    template: text(raw, 'template'),
    task: text(raw, 'task'),
    calendar: text(raw, 'calendar'),
  })
}

export type SignInSearch = { next?: string | undefined }

/** `next`: the page to open after signing in. Only a path of this UI. */
export function signInSearch(raw: Record<string, unknown>): SignInSearch {
  const next = text(raw, 'next')
  return compact({ next: next !== undefined && /^\/(?![/\\])/.test(next) ? next : undefined })
}
