/**
 * The keys of cached answers. The first word says what it is about: events refresh everything below a word (see
 * events/touched.ts), so a new query whose key begins with one of these words is live without further code.
 */
export const keys = {
  me: ['me'] as const,
  stats: (window: string) => ['stats', window] as const,
  timeline: (query: object) => ['timeline', query] as const,
  /** Lists of jobs. */
  jobs: (query: object) => ['jobs', query] as const,
  /** One job, and what belongs to it: `keys.job(id, 'ledger', range)`. */
  job: (jobId: string, ...rest: readonly unknown[]) => ['job', jobId, ...rest] as const,
  /** Short lists of runs, which are read again when runs change. The page of all runs keeps its own pages. */
  runs: (query: object) => ['runs', query] as const,
  run: (runId: string, ...rest: readonly unknown[]) => ['run', runId, ...rest] as const,
  workflows: (...rest: readonly unknown[]) => ['workflows', ...rest] as const,
  workflow: (workflowId: string, ...rest: readonly unknown[]) => ['workflow', workflowId, ...rest] as const,
  workflowRun: (id: string, ...rest: readonly unknown[]) => ['workflow-run', id, ...rest] as const,
  deadLetters: (...rest: readonly unknown[]) => ['dead-letters', ...rest] as const,
  backfills: (...rest: readonly unknown[]) => ['backfills', ...rest] as const,
  workers: (...rest: readonly unknown[]) => ['workers', ...rest] as const,
  /** These have no events: a page reads them when it opens and after its own changes. */
  calendars: (...rest: readonly unknown[]) => ['calendars', ...rest] as const,
  forecast: (query: object) => ['forecast', query] as const,
  tasks: (...rest: readonly unknown[]) => ['tasks', ...rest] as const,
  apiKeys: ['api-keys'] as const,
  sessions: ['sessions'] as const,
}
