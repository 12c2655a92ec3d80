import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

/** Returns the commands that cancel or retry a workflow run. */
export function workflowRunCommands(action: 'cancel' | 'retry', workflowRunId: string): Commands {
  return {
    curl: curl('POST', String(apiUrl(`/v1/workflow-runs/${workflowRunId}/${action}`))),
    cli: cli(['workflows', action, workflowRunId]),
    python: python(`${action}_workflow_run`, [workflowRunId]),
  }
}
