/**
 * The keys of cached answers. The first word names the resource. An event refreshes all answers whose key begins with a
 * given word (see events/touched.ts), so a new query with one of these words needs no further code to stay current.
 */
export const keys = {
  me: ['me'] as const,
  stats: (window: string) => ['stats', window] as const,
  timeline: (query: object) => ['timeline', query] as const,
  /** Lists of jobs. */
  jobs: (query: object) => ['jobs', query] as const,
  /** One job and its parts, such as `keys.job(id, 'ledger', range)`. */
  job: (jobId: string, ...rest: readonly unknown[]) => ['job', jobId, ...rest] as const,
  /** Short lists of runs, which are fetched again when runs change. The page of all runs has its own cache. */
  runs: (query: object) => ['runs', query] as const,
  run: (runId: string, ...rest: readonly unknown[]) => ['run', runId, ...rest] as const,
  workflows: (...rest: readonly unknown[]) => ['workflows', ...rest] as const,
  workflow: (workflowId: string, ...rest: readonly unknown[]) => ['workflow', workflowId, ...rest] as const,
  workflowRun: (id: string, ...rest: readonly unknown[]) => ['workflow-run', id, ...rest] as const,
  deadLetters: (...rest: readonly unknown[]) => ['dead-letters', ...rest] as const,
  backfills: (...rest: readonly unknown[]) => ['backfills', ...rest] as const,
  workers: (...rest: readonly unknown[]) => ['workers', ...rest] as const,
  /** The server sends no events about these resources. A page fetches them when it opens and after its own changes. */
  calendars: (...rest: readonly unknown[]) => ['calendars', ...rest] as const,
  forecast: (query: object) => ['forecast', query] as const,
  tasks: (...rest: readonly unknown[]) => ['tasks', ...rest] as const,
  apiKeys: ['api-keys'] as const,
  sessions: ['sessions'] as const,
  users: ['users'] as const,
  tenants: ['tenants'] as const,
  auditLog: (filter: object) => ['audit-log', filter] as const,
  usage: (query: object) => ['usage', query] as const,
}
