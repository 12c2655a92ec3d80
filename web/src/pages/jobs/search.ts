import type { JobStatus } from '@/api/types'
import { choice, compact, list, text } from '@/lib/search'
import { JOB_STATES } from '@/lib/states'

export const JOB_STATUSES = Object.keys(JOB_STATES) as JobStatus[]
export const KINDS = ['http', 'shell', 'script', 'python', 'workflow'] as const
export const SCHEDULE_TYPES = ['cron', 'interval', 'date', 'immediate', 'window', 'follow'] as const

export type JobsSearch = {
  q?: string | undefined
  status?: JobStatus[] | undefined
  tag?: string | undefined
  kind?: string | undefined
  userId?: string | undefined
  scheduleType?: string | undefined
}

export function jobsSearch(raw: Record<string, unknown>): JobsSearch {
  return compact({
    q: text(raw, 'q'),
    status: list(raw, 'status', JOB_STATUSES),
    tag: text(raw, 'tag'),
    kind: choice(raw, 'kind', KINDS),
    userId: text(raw, 'userId'),
    scheduleType: choice(raw, 'scheduleType', SCHEDULE_TYPES),
  })
}
