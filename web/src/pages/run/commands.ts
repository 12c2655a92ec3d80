import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

/** Returns the commands for the actions of this page, for a terminal or a script. */

type Edit = Record<string, unknown>

export function readCommands(runId: string): Commands {
  return {
    curl: curl('GET', apiUrl(`/v1/runs/${runId}`)),
    cli: cli(['runs', 'show', runId]),
    python: python('run', [runId]),
  }
}

export function cancelCommands(runId: string): Commands {
  return {
    curl: curl('POST', apiUrl(`/v1/runs/${runId}/cancel`)),
    cli: cli(['runs', 'cancel', runId]),
    python: python('cancel', [runId]),
  }
}

export function againCommands(action: 'retry' | 'replay', runId: string, edit?: Edit): Commands {
  const changed = edit !== undefined && Object.keys(edit).length > 0 ? edit : undefined
  return {
    curl: curl('POST', apiUrl(`/v1/runs/${runId}/${action}`), changed && { edit: changed }),
    cli: cli(['runs', action, runId], { edit: changed && JSON.stringify(changed) }),
    python: python(action, [runId], { edit: changed }),
  }
}
