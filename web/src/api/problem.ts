import type { Problem } from './types'

/** An answer of the server with an error status. */
export class ApiError extends Error {
  override readonly name = 'ApiError'

  constructor(
    readonly status: number,
    readonly problem: Problem,
    /** The number of seconds to wait before the next try, as the server asks. */
    readonly retryAfter: number | null = null,
  ) {
    super(problem.detail || problem.title)
  }

  get code(): string {
    return this.problem.code
  }

  /** Returns the error message for the value of the body at this JSON pointer. */
  at(pointer: string): string | undefined {
    return this.problem.errors?.find(item => item.pointer === pointer)?.detail
  }
}

/** Thrown when the server did not answer. */
export class NetworkError extends Error {
  override readonly name = 'NetworkError'
}

/** Returns the problem document of an answer. If the body is no problem document, returns one made from the status. */
export function problemOf(status: number, body: unknown): Problem {
  if (typeof body === 'object' && body !== null && 'title' in body && 'status' in body) {
    const given = body as Partial<Problem>
    return {
      type: given.type ?? 'about:blank',
      title: given.title ?? '',
      status,
      detail: given.detail ?? '',
      code: given.code ?? `http_${status}`,
      ...(given.errors === undefined ? {} : { errors: given.errors }),
      ...(given.incident === undefined ? {} : { incident: given.incident }),
    }
  }
  return {
    type: 'about:blank',
    title: `The server answered with status ${status}`,
    status,
    detail: '',
    code: `http_${status}`,
  }
}

/** Returns one sentence that tells the user what to do about an error. */
export function advice(error: unknown): string {
  if (error instanceof NetworkError)
    return 'The server cannot be reached. Check that it runs; this page tries again by itself.'
  if (!(error instanceof ApiError)) return 'Reload the page. If it happens again, report it with the text below.'
  if (error.status === 401) return 'Sign in again.'
  if (error.status === 403) return 'Your key does not allow this. Sign in with a key of a higher role.'
  if (error.status === 404 && error.code.startsWith('http_'))
    return 'This server does not have this feature. Update it.'
  if (error.status === 404) return 'It may have been removed by retention, or the address is wrong.'
  if (error.status === 409) return 'Its state has changed. Reload, and look again.'
  if (error.status === 412) return 'It was changed in the meantime. Reload, and apply your change again.'
  if (error.status === 413) return 'Send less: the limit is in the text.'
  if (error.status === 422) return 'Correct the value, and try again.'
  if (error.status === 429) return `Too many requests. Try again in ${error.retryAfter ?? 'a few'} seconds.`
  if (error.status === 503) return 'The store is not available at the moment. This page tries again by itself.'
  return error.problem.incident === undefined
    ? 'Try again. The log of the server says more.'
    : `Search the log of the server for incident ${error.problem.incident}.`
}
