import { learnServerTime } from '@/lib/clock'
import { apiUrl, type QueryValue, queryString } from '@/lib/url'
import { firstDataShown } from './first'
import { ApiError, NetworkError, problemOf } from './problem'
import type { paths } from './schema'

/**
 * The typed client. Paths, parameters, bodies and answers come from the OpenAPI document:
 * `api.get('/v1/jobs/{jobId}', { path: { jobId } })`.
 */

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P][M] extends object ? P : never }[keyof paths]
type Operation<P extends keyof paths, M extends Method> = paths[P][M]

type Json<R> = R extends { content: { 'application/json': infer J } } ? J : undefined
type Success<R> = { [S in keyof R]: S extends 200 | 201 | 202 | 204 ? Json<R[S]> : never }[keyof R]
export type Answer<P extends keyof paths, M extends Method = 'get'> =
  Operation<P, M> extends { responses: infer R } ? Success<R> : never

type PathOf<O> = O extends { parameters: { path: infer V } } ? { path: V } : { path?: undefined }
type QueryOf<O> = O extends { parameters: { query?: infer V } } ? { query?: V } : { query?: undefined }
type BodyOf<O> = O extends { requestBody?: { content: { 'application/json': infer B } } }
  ? { body?: B }
  : { body?: undefined }
type Common = { signal?: AbortSignal | undefined; headers?: Record<string, string> }
export type Options<P extends keyof paths, M extends Method> = PathOf<Operation<P, M>> &
  QueryOf<Operation<P, M>> &
  BodyOf<Operation<P, M>> &
  Common

type Given = Common & {
  /**
   * True if the page can be shown without this answer. The request is then sent after the first data of the page is
   * shown.
   */
  later?: boolean
  path?: object | undefined
  query?: object | undefined
  body?: unknown
}

/** Returns the path with its parameters filled in: `/v1/jobs/{jobId}` becomes `/v1/jobs/j_1`. */
export function fillPath(template: string, values: object | undefined): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = (values as Record<string, unknown> | undefined)?.[name]
    return encodeURIComponent(String(value))
  })
}

/** Returns the headers of a change that the server refuses with 412 if the resource has another version. */
export function ifMatch(version: number | undefined): Record<string, string> {
  return version === undefined ? {} : { 'If-Match': `"${version}"` }
}

let onUnauthorized: () => void = () => {}

/** Sets the function that is called when the server no longer accepts the session. */
export function whenUnauthorized(handler: () => void): void {
  onUnauthorized = handler
}

/** Sends one request. Throws `ApiError` or `NetworkError`, or the abort error of the signal, and no other error. */
export async function request<T>(method: string, path: string, options: Given = {}): Promise<T> {
  const gate = firstDataShown.enter(options.later ?? false)
  if (gate.wait !== null) await gate.wait
  try {
    return await send<T>(method, path, options)
  } finally {
    gate.leave()
  }
}

async function send<T>(method: string, path: string, options: Given): Promise<T> {
  const url = apiUrl(fillPath(path, options.path) + queryString(listsJoined(options.query)))
  // The server accepts a write that is authenticated by a cookie only with this content type, even if it has no body.
  const writes = method !== 'GET'
  const sentAt = Date.now()
  let response: Response
  try {
    response = await fetch(url, {
      method,
      credentials: 'same-origin',
      cache: 'no-store',
      signal: options.signal ?? null,
      headers: {
        Accept: 'application/json',
        ...(writes ? { 'Content-Type': 'application/json' } : {}),
        ...options.headers,
      },
      ...(writes && options.body !== undefined ? { body: JSON.stringify(options.body) } : {}),
    })
  } catch (error) {
    if (options.signal?.aborted) throw error
    throw new NetworkError('The server did not answer.')
  }
  const body = await bodyOf(response)
  if (!response.ok) {
    if (response.status === 401) onUnauthorized()
    const retryAfter = Number(response.headers.get('Retry-After'))
    throw new ApiError(response.status, problemOf(response.status, body), retryAfter > 0 ? retryAfter : null)
  }
  const date = Date.parse(response.headers.get('Date') ?? '')
  // The `Date` header has whole seconds, so it corrects only a clock that is more than two seconds off.
  if (!Number.isNaN(date) && Math.abs(date + 500 - Date.now()) > 2000) learnServerTime(date + 500, sentAt, Date.now())
  return body as T
}

/** Joins the values of each list with commas, as the API expects them. */
function listsJoined(query: object | undefined): Record<string, QueryValue> | undefined {
  if (query === undefined) return undefined
  const join = (value: QueryValue) => (Array.isArray(value) ? value.join(',') : value)
  return Object.fromEntries(Object.entries(query).map(([name, value]) => [name, join(value as QueryValue)]))
}

async function bodyOf(response: Response): Promise<unknown> {
  if (response.status === 204) return undefined
  const type = response.headers.get('Content-Type') ?? ''
  try {
    return type.includes('json') ? await response.json() : undefined
  } catch {
    throw new NetworkError('The answer of the server broke off.')
  }
}

function caller<M extends Method>(method: M) {
  return <P extends PathsWith<M>>(
    path: P,
    ...[options]: object extends Options<P, M> ? [Options<P, M>?] : [Options<P, M>]
  ) => request<Answer<P, M>>(method.toUpperCase(), path, options as Given | undefined)
}

export const api = {
  get: caller('get'),
  post: caller('post'),
  put: caller('put'),
  patch: caller('patch'),
  delete: caller('delete'),
}
