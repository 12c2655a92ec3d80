import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

/** The actions of this page for a terminal or a script. */

const job = (jobId: string, rest = '') => apiUrl(`/v1/jobs/${jobId}${rest}`)

export function runNowCommands(jobId: string): Commands {
  return {
    curl: curl('POST', job(jobId, '/run')),
    cli: cli(['jobs', 'run', jobId]),
    python: python('run_now', [jobId]),
  }
}

export function pauseCommands(jobId: string, reason: string, until: string | null): Commands {
  const end = until ?? undefined
  return {
    curl: curl('POST', job(jobId, '/pause'), { reason, until }),
    cli: cli(['jobs', 'pause', jobId], { reason, until: end }),
    python: python('pause', [jobId], { reason: reason === '' ? undefined : reason, until: end }),
  }
}

export function resumeCommands(jobId: string): Commands {
  return {
    curl: curl('POST', job(jobId, '/resume')),
    cli: cli(['jobs', 'resume', jobId]),
    python: python('resume', [jobId]),
  }
}

export function deleteCommands(jobId: string): Commands {
  return {
    curl: curl('DELETE', job(jobId)),
    cli: cli(['jobs', 'delete', jobId], { yes: true }),
    python: python('delete_job', [jobId]),
  }
}

export type BackfillInput = { from: string; to: string; parallelism: number }

export function backfillCommands(jobId: string, input: BackfillInput): Commands {
  return {
    curl: curl('POST', job(jobId, '/backfill'), input),
    cli: cli(['jobs', 'backfill', jobId], input),
    python: python('backfill', [jobId, input.from, input.to], { parallelism: input.parallelism }),
  }
}

export function ledgerCommands(jobId: string, period: { from: number; to: number }): Commands {
  const from = new Date(period.from).toISOString()
  const to = new Date(period.to).toISOString()
  return {
    curl: curl('GET', job(jobId, `/ledger?from=${from}&to=${to}`)),
    cli: cli(['audit', jobId], { from, to }),
    python: python('ledger', [jobId, from, to]),
  }
}
