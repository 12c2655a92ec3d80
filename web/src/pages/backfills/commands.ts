import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl, queryString } from '@/lib/url'

/** Returns the commands for the actions of this page, for a terminal or a script. */

export function listCommands(jobId: string | undefined): Commands {
  return {
    curl: curl('GET', apiUrl('/v1/backfills') + queryString({ jobId })),
    cli: cli(['backfills', 'list'], { job: jobId }),
    python: python('backfills', [], { job_id: jobId }),
  }
}

export function cancelCommands(backfillId: string): Commands {
  return {
    curl: curl('POST', apiUrl(`/v1/backfills/${backfillId}/cancel`)),
    cli: cli(['backfills', 'cancel', backfillId]),
    python: python('cancel_backfill', [backfillId]),
  }
}
