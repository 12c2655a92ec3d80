import { compact, text } from './lib/search'

/** Reads the search parameters of the pages whose code is loaded later. */

export type OpenSearch = Record<string, string | string[] | undefined>

/** Returns all parameters. The page reads those that it knows with the functions of lib/search. */
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

/**
 * `next` is the page to open after the sign-in. Only paths of this UI are accepted. Browsers remove tabs and line feeds
 * from a URL and take a backslash for a slash, so `//host`, `/\host` and `/\t/host` are all addresses of another host.
 */
export function signInSearch(raw: Record<string, unknown>): SignInSearch {
  const next = text(raw, 'next')
  return compact({ next: next !== undefined && /^\/(?![/\\])\P{Cc}*$/u.test(next) ? next : undefined })
}
