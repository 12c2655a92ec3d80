import { type Commands, cli, curl, python, shellWord } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

const task = (taskId: string) => apiUrl(`/v1/tasks/${encodeURIComponent(taskId)}`)

export function putCommands(taskId: string, body: object): Commands {
  return {
    curl: curl('PUT', task(taskId), body),
    cli: `echo ${shellWord(JSON.stringify(body))} | ${cli(['tasks', 'set', taskId], { file: '-' })}`,
    python: python('put_task', [taskId, body]),
  }
}

export function deleteCommands(taskId: string): Commands {
  return {
    curl: curl('DELETE', task(taskId)),
    cli: cli(['tasks', 'delete', taskId]),
    python: python('delete_task', [taskId]),
  }
}
