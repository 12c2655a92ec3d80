import type { components } from './schema'

/** Short names for what the API answers. */
type Schemas = components['schemas']

export type Problem = {
  type: string
  title: string
  status: number
  detail: string
  code: string
  errors?: { pointer: string; detail: string }[]
  incident?: string
}

export type Job = Schemas['JobView']
export type Run = Schemas['RunView']
export type RunStatus = Schemas['Status']
export type Verdict = Schemas['Verdict']
export type Origin = Schemas['Origin']
export type JobStatus = Job['status']
export type BulkAnswer = Schemas['BulkAnswer']
export type Worker = Schemas['WorkerView']
export type Page<T> = { items: T[]; nextCursor: string | null }

export type RecentRun = {
  runId: string
  status: RunStatus
  fireTime: string
  startedAt: string | null
  endedAt: string | null
  lateMs: number | null
}

export type JobRow = Job & { recentRuns?: RecentRun[] }

export type Permission = 'read' | 'write' | 'admin'

export type Me = {
  keyId: string
  name: string
  role: string
  tenant: string
  permissions: Permission[]
  via: 'key' | 'session'
  session: { id: string; createdAt: string; expiresAt: string } | null
  server: { version: string; store: 'sqlite' | 'postgresql'; now: string; publicUrl: string | null }
}

export type StatsWindow = '5m' | '1h' | '24h'

export type StatsBucket = {
  at: string
  finished: number
  succeeded: number
  failed: number
  dead: number
  cancelled: number
  skipped: number
  missed: number
  lateP50Ms: number | null
  lateP99Ms: number | null
}

export type Attention = {
  kind: 'dead' | 'late' | 'failing' | 'paused' | 'workerLost' | 'unplaceable'
  count: number
  jobId: string | null
  jobName: string | null
  runId: string | null
  message: string
  since: string | null
}

export type Stats = {
  window: StatsWindow
  from: string
  to: string
  bucketSeconds: number
  buckets: StatsBucket[]
  totals: Omit<StatsBucket, 'at'> & { runsPerSecond: number; successRate: number | null }
  now: {
    scheduled: number
    blocked: number
    queued: number
    running: number
    retrying: number
    oldestQueuedAgeMs: number | null
    deadLetters: number
    jobs: number
    pausedJobs: number
  }
  workers: { live: number; slots: number; busy: number }
  upNext: { jobId: string; jobName: string; fireTime: string }[]
  attention: Attention[]
}

export type TimelineRun = {
  runId: string
  fireTime: string
  startedAt: string | null
  endedAt: string | null
  status: RunStatus
  verdict: Verdict
  lateMs: number | null
}

export type TimelineCounts = {
  on_time?: number
  late?: number
  failed?: number
  skipped?: number
  missed?: number
  running?: number
}

export type TimelineLane = {
  id: string
  name: string
  status: JobStatus | null
  runs: TimelineRun[]
  buckets: { from: string; to: string; counts: TimelineCounts }[] | null
  fires: string[]
  truncated: boolean
}

export type Timeline = {
  from: string
  to: string
  now: string
  by: 'job' | 'tag'
  lanes: TimelineLane[]
  hiddenLanes: number
}
