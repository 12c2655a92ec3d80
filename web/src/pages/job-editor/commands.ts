import { type Commands, cli, curl, pythonLiteral, shellWord } from '@/lib/quote'
import { apiUrl } from '@/lib/url'
import { isWorkflow, type JobDocument } from './model/document'

/** Converts `catchUpWindow` to `catch_up_window`. */
function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

function pythonCall(method: string, args: readonly string[], document: JobDocument): string {
  const fields = Object.entries(document).filter(([name]) => name !== 'name' || method !== 'create_job')
  const lines = [...args, ...fields.map(([name, value]) => `${snake(name)}=${pythonLiteral(value)}`)]
  const body = lines.map(line => `        ${line},`).join('\n')
  return `import timeball\n\nwith timeball.Client() as client:\n    client.${method}(\n${body}\n    )\n`
}

function fromFile(words: readonly string[], options: Record<string, string | number>, document: JobDocument): string {
  return `${shellWord('echo')} ${shellWord(JSON.stringify(document))} | ${cli(words, { file: '-', ...options })}`
}

export function createCommands(document: JobDocument): Commands {
  const name = typeof document.name === 'string' ? document.name : ''
  const workflow = isWorkflow(document)
  return {
    curl: curl('POST', String(apiUrl('/v1/jobs')), document),
    cli: workflow ? null : fromFile(['jobs', 'create'], {}, document),
    python: workflow ? null : pythonCall('create_job', [pythonLiteral(name)], document),
  }
}

export function updateCommands(jobId: string, version: number, change: JobDocument, workflow: boolean): Commands {
  const path = workflow ? `/v1/workflows/${jobId}` : `/v1/jobs/${jobId}`
  return {
    curl: curl('PATCH', String(apiUrl(path)), change).replace('curl -sS', `curl -sS -H 'If-Match: "${version}"'`),
    cli: fromFile([workflow ? 'workflows' : 'jobs', 'update', jobId], { version }, change),
    python: workflow ? null : pythonCall('update_job', [pythonLiteral(jobId), `version=${version}`], change),
  }
}
