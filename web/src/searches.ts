import { compact, text } from './lib/search'

/** Search parameters of pages that are loaded later. */

export type OpenSearch = Record<string, string | string[] | undefined>

/** Any parameters: the page reads what it knows with the readers of lib/search. */
export function openSearch(raw: Record<string, unknown>): OpenSearch {
  return raw as OpenSearch
}

export type JobEditorSearch = { from?: string | undefined; clone?: string | undefined; template?: string | undefined }

/** `from` (or `clone`): the id of a job whose definition the form begins with. */
export function jobEditorSearch(raw: Record<string, unknown>): JobEditorSearch {
  return compact({ from: text(raw, 'from'), clone: text(raw, 'clone'), template: text(raw, 'template') })
}

export type SignInSearch = { next?: string | undefined }

/** `next`: the page to open after signing in. Only a path of this UI. */
export function signInSearch(raw: Record<string, unknown>): SignInSearch {
  const next = text(raw, 'next')
  return compact({ next: next !== undefined && /^\/(?![/\\])/.test(next) ? next : undefined })
}
