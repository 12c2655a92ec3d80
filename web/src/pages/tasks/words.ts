import type { RegisteredTask } from '@/api/types'
import { plural } from '@/lib/time'

/** Describes a task in words. */

type Task = RegisteredTask['task']
export type Words = { label: string; text: string; code?: string }

/** Returns in one line what the task executes, such as its URL or command. */
export function taskCode(task: Task): string {
  switch (task.kind) {
    case 'http':
      return `${task.method ?? 'POST'} ${task.url}`
    case 'shell':
      return typeof task.command === 'string' ? task.command : task.command.join(' ')
    case 'script':
      return [task.script, ...(task.args ?? [])].join(' ')
    case 'python':
      return task.function
  }
}

const KINDS: Record<Task['kind'], { verb: string; text: string }> = {
  http: { verb: 'Calls', text: 'An address, over HTTP.' },
  shell: { verb: 'Runs', text: 'A command, on a worker.' },
  script: { verb: 'Runs', text: "A file of the worker's scripts folder." },
  python: { verb: 'Calls', text: 'A Python function that a worker registered.' },
}

export const KIND_LABELS: Record<Task['kind'], string> = {
  http: 'HTTP',
  shell: 'Shell',
  script: 'Script',
  python: 'Python',
}

export function taskWords(task: Task): Words[] {
  const words: Words[] = [{ label: KINDS[task.kind].verb, text: KINDS[task.kind].text, code: taskCode(task) }]
  if (task.kind === 'http') {
    const headers = Object.keys(task.headers ?? {})
    if (headers.length > 0) words.push({ label: 'Headers', text: headers.join(', ') })
    words.push({
      label: 'Body',
      text: task.body == null ? 'The parameters of the job, as JSON.' : 'A body of its own.',
    })
    words.push({ label: 'Success', text: `A status of ${(task.acceptedStatuses ?? ['2xx']).join(', ')}.` })
    words.push({
      label: 'Breaker',
      text:
        task.breaker === false ? 'Off: it is called also while the host fails.' : 'Waits while the host keeps failing.',
    })
  } else if (task.kind === 'shell') {
    words.push({
      label: 'How',
      text:
        typeof task.command === 'string'
          ? 'By sh -c. Exit code 0 is success.'
          : 'As a program, without a shell. Exit code 0 is success.',
    })
    if (task.cwd != null) words.push({ label: 'Folder', text: task.cwd })
  }
  if (task.kind === 'shell' || task.kind === 'script') {
    const names = Object.keys(task.env ?? {})
    if (names.length > 0)
      words.push({ label: 'Environment', text: `${plural(names.length, 'variable')}: ${names.join(', ')}` })
  }
  return words
}
