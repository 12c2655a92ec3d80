import type { Job, SloAnswer } from '@/api/types'

/** Describes the definition of a job in sentences. Fields with their default values are left out. */

export type Words = { label: string; text: string; code?: string }

const OVERLAP: Record<string, string> = {
  allow: 'Runs may overlap.',
  skip: 'A fire is skipped while an earlier run is live.',
  queue: 'A run waits for the earlier ones.',
  queue_one: 'A run waits for the earlier one; while one waits, further fires are skipped.',
  cancel_previous: 'A new fire cancels the run before it.',
  terminate_previous: 'A new fire kills the run before it at once.',
}

const CATCH_UP: Record<string, string> = {
  all: 'After an outage every missed fire runs',
  last: 'After an outage the last missed fire runs',
  none: 'Missed fires do not run',
  skip: 'Missed fires do not run',
}

export function taskWords(job: Job): Words {
  const { task } = job
  if (task === undefined) return { label: 'Runs', text: 'the registered task', code: job.taskId ?? '' }
  switch (task.kind) {
    case 'shell':
      return { label: 'Runs', text: 'a command', code: commandText(task.command) }
    case 'http':
      return { label: 'Calls', text: 'an address', code: `${task.method ?? 'POST'} ${task.url}` }
    case 'script':
      return { label: 'Runs', text: 'a script', code: [task.script, ...(task.args ?? [])].join(' ') }
    case 'python':
      return { label: 'Calls', text: 'a Python function', code: task.function }
    case 'workflow':
      return { label: 'Runs', text: `a workflow of ${task.tasks.length} tasks` }
  }
}

function commandText(command: string | readonly string[]): string {
  return typeof command === 'string' ? command : command.join(' ')
}

/** `description` is the server's description of the schedule. */
export function jobWords(job: Job, description: string | null, starts?: SloAnswer): Words[] {
  const words: Words[] = [{ label: 'When', text: description ?? scheduleText(job) }]
  const limits = [
    job.startAt === undefined ? null : `not before ${job.startAt}`,
    job.endAt === undefined ? null : `not after ${job.endAt}`,
    job.maxRuns === undefined ? null : `at most ${job.maxRuns} times`,
    job.jitter === undefined ? null : `each up to ${job.jitter} later`,
  ].filter(item => item !== null)
  if (limits.length > 0) words.push({ label: 'Limits', text: capital(`${limits.join(', ')}.`) })
  if (job.calendars !== undefined && job.calendars.length > 0)
    words.push({
      label: 'Calendars',
      text: `${job.excluded === 'next_open' ? 'Moves fires out of' : 'Skips fires in'} closed times of ${job.calendars.join(', ')}.`,
    })
  words.push(taskWords(job))
  words.push({ label: 'If it fails', text: retryText(job) })
  words.push({ label: 'Overlap', text: OVERLAP[job.overlap] ?? job.overlap })
  words.push({ label: 'Outages', text: catchUpText(job) })
  if (job.timeout !== null) words.push({ label: 'Timeout', text: `An attempt is stopped after ${job.timeout}.` })
  if (job.startDeadline !== undefined)
    words.push({ label: 'Deadline', text: `Skipped if it has not started ${job.startDeadline} after its time.` })
  if (job.slo !== undefined) words.push({ label: 'Objective', text: sloText(job.slo, starts) })
  if (String(job.priority) !== 'medium') words.push({ label: 'Priority', text: capital(`${job.priority}.`) })
  if (job.concurrency !== undefined)
    words.push({
      label: 'Concurrency',
      text: `At most ${job.concurrency.limit} runs with the key ${job.concurrency.key} at once.`,
    })
  if (job.rateLimit !== undefined)
    words.push({
      label: 'Rate',
      text: `At most ${job.rateLimit.limit} starts per ${job.rateLimit.per} with the key ${job.rateLimit.key}.`,
    })
  if (job.orderingKey !== undefined)
    words.push({ label: 'Order', text: `One after the other with all runs of the key ${job.orderingKey}.` })
  if (job.runsOn !== undefined && job.runsOn.length > 0)
    words.push({ label: 'Workers', text: `Only those with the labels ${job.runsOn.join(', ')}.` })
  if (job.delivery === 'at_most_once')
    words.push({ label: 'Delivery', text: 'At most once: an attempt whose worker is lost is not repeated.' })
  return words
}

/** The lateness objective, with what is left of its error budget once the server has counted the starts. */
export function sloText(slo: NonNullable<Job['slo']>, starts?: SloAnswer): string {
  const target = `${slo.objective} % start within ${slo.startWithin}.`
  const hour = starts?.total.at(0)
  const month = starts?.total.at(-1)
  if (hour === undefined || month === undefined || month.budgetLeft === null) return target
  const left = `${(month.budgetLeft * 100).toFixed(1)} % of the error budget is left`
  const burnRate = hour.burnRate === null ? '' : `; burn rate of the last hour ${hour.burnRate}`
  return `${target} In ${month.window}, ${month.late} of ${month.starts} started late: ${left}${burnRate}.`
}

/** Describes a schedule without the server, for a server that does not describe this kind of schedule. */
export function scheduleText(job: Job): string {
  const { schedule } = job
  switch (schedule.type) {
    case 'immediate':
      return 'Once, at its creation.'
    case 'date':
      return `Once, at ${schedule.expression ?? job.scheduleTime ?? 'its time'}.`
    case 'interval':
      return `Every ${schedule.expression}.`
    case 'cron':
      return `${schedule.expression}${schedule.timezone === undefined ? '' : ` (${schedule.timezone})`}`
    case 'window':
      return `Daily, in a slot between ${schedule.from} and ${schedule.to}.`
    case 'follow':
      return `After each run of ${schedule.job} that has ${schedule.on ?? 'succeeded'}.`
  }
}

function retryText(job: Job): string {
  const { maxRetries, backoff, base, cap } = job.retry
  if (maxRetries === 0) return 'It is not tried again.'
  const times = maxRetries === 1 ? 'once' : `up to ${maxRetries} times`
  if (Array.isArray(backoff)) return `Tried again ${times}, after ${backoff.join(', ')}.`
  if (backoff === 'fixed' || backoff === 'constant') return `Tried again ${times}, after ${base} each.`
  return `Tried again ${times}, ${backoff} from ${base} to ${cap}.`
}

function catchUpText(job: Job): string {
  const rule = CATCH_UP[job.catchUp] ?? `Catch up: ${job.catchUp}`
  const runs = job.catchUp === 'all' || job.catchUp === 'last'
  return runs ? `${rule}, if it was due within ${job.catchUpWindow}.` : `${rule}.`
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
