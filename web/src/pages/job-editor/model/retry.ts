import { parseDuration } from './duration'

export type RetryRules = {
  maxRetries: number
  backoff: string | readonly unknown[]
  base: unknown
  cap: unknown
}

export type RetryDelay = {
  /** The number of the retry, from 1. */
  retry: number
  /** The delay in milliseconds, without its random part. */
  ms: number
  /** The shortest and the longest delay in milliseconds. Exponential and linear delays vary by ten percent. */
  least: number
  most: number
  /** The latest start of the retry, in milliseconds after the first failure, without the time that attempts take. */
  until: number
  capped: boolean
}

const JITTER = 0.1
const MAX_DELAY_MS = 366 * 86_400_000
export const MAX_RETRIES = 100

export function rulesOf(retry: unknown): RetryRules {
  const given = (typeof retry === 'object' && retry !== null ? retry : {}) as Record<string, unknown>
  const max = given.maxRetries
  const backoff = given.backoff
  return {
    maxRetries: typeof max === 'number' && Number.isInteger(max) ? Math.min(MAX_RETRIES, Math.max(0, max)) : 3,
    backoff: typeof backoff === 'string' || Array.isArray(backoff) ? backoff : 'exponential',
    base: given.base ?? '5s',
    cap: given.cap ?? '1h',
  }
}

/** Returns the delay before each retry. Returns null if a duration of the policy is not valid. */
export function retryDelays(rules: RetryRules): RetryDelay[] | null {
  const cap = parseDuration(rules.cap)
  if (cap === null) return null
  const limit = Math.min(cap, MAX_DELAY_MS)
  const delays: RetryDelay[] = []
  let until = 0
  for (let retry = 1; retry <= rules.maxRetries; retry++) {
    const wanted = delayOf(rules, retry)
    if (wanted === null) return null
    const ms = Math.min(limit, wanted)
    const varies = rules.backoff === 'exponential' || rules.backoff === 'linear'
    const most = varies ? Math.min(limit, ms * (1 + JITTER)) : ms
    until += most
    delays.push({ retry, ms, least: varies ? ms * (1 - JITTER) : ms, most, until, capped: wanted > limit })
  }
  return delays
}

function delayOf(rules: RetryRules, retry: number): number | null {
  if (typeof rules.backoff !== 'string')
    return parseDuration(rules.backoff[Math.min(retry, rules.backoff.length) - 1] ?? null)
  const base = parseDuration(rules.base)
  if (base === null) return null
  if (rules.backoff === 'exponential') return base * 2 ** Math.min(retry, 64)
  if (rules.backoff === 'linear') return base * retry
  return rules.backoff === 'fixed' ? base : null
}
