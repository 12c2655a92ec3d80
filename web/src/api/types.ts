import type { components } from './schema'

/** Short names for types of API answers. */
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
export type CountedAnswer = Schemas['CountedAnswer']
export type Worker = Schemas['WorkerView']
export type Page<T> = { items: T[]; nextCursor: string | null }

export type RecentRun = Schemas['RecentRun']
/** A job in a list. It has its last runs if the request asked for them. */
export type JobRow = Schemas['ListedJob']

export type Permission = 'read' | 'run' | 'edit' | 'admin' | 'system'

export type Me = {
  keyId: string | null
  name: string
  role: string
  tenant: string
  permissions: Permission[]
  via: 'key' | 'session'
  session: { id: string; createdAt: string; expiresAt: string } | null
  server: { version: string; store: 'sqlite' | 'postgresql'; now: string; publicUrl: string | null }
}

export type Calendar = Schemas['CalendarView']
export type CalendarEntry = Schemas['Entry']
export type ClosedTime = Schemas['ClosedTimeView']
export type CalendarPreview = Schemas['CalendarPreviewAnswer']
export type RegisteredTask = Schemas['RegisteredTaskView']
export type ApiKey = Schemas['KeyView']
export type NewApiKey = Schemas['NewKeyAnswer']
export type WebSession = Schemas['WebSessionView']

export type Stats = Schemas['StatsAnswer']
export type SloAnswer = Schemas['SloAnswer']
export type StatsWindow = Stats['window']
export type Attention = Schemas['AttentionView']

export type Timeline = Schemas['TimelineAnswer']
export type TimelineLane = Schemas['LaneView']
export type TimelineRun = Schemas['TimelineRun']
export type LaneVerdict = Schemas['LaneVerdict']

export type User = Schemas['UserView']
export type Tenant = Schemas['TenantView']
export type Usage = Schemas['UsageView']
export type TenantLimits = Schemas['TenantLimits']
export type AuditEntry = Schemas['AuditEntryView']
