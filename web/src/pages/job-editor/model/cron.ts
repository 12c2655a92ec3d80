/** Converts a cron expression to the forms that the builder shows: one of a few common patterns, or its fields. */

export type Simple =
  | { kind: 'minutes'; every: number }
  | { kind: 'hourly'; minute: number }
  | { kind: 'daily'; hour: number; minute: number }
  | { kind: 'weekly'; days: number[]; hour: number; minute: number }
  | { kind: 'monthly'; day: number; hour: number; minute: number }
  | { kind: 'yearly'; month: number; day: number; hour: number; minute: number }

/** The days of the week in the order of the form. 0 is Sunday. */
export const WEEK = [1, 2, 3, 4, 5, 6, 0] as const

/** Steps of minutes that divide an hour. Any other step has a shorter gap at the end of each hour. */
export const MINUTE_STEPS = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30] as const

export type FieldName = 'second' | 'minute' | 'hour' | 'day' | 'month' | 'weekday'
export type Fields = { second: string | null } & Record<Exclude<FieldName, 'second'>, string>

export const FIELD_HINTS: Readonly<Record<FieldName, string>> = {
  second: '0-59',
  minute: '0-59, */5',
  hour: '0-23, 9-17',
  day: '1-31, L',
  month: '1-12, JAN',
  weekday: '0-6, MON-FRI',
}

const NICKNAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}

/** Returns the fields of an expression with 5 fields, or with 6 if seconds come first; null for any other text. */
export function fieldsOf(expression: string): Fields | null {
  const text = expression.trim()
  const parts = (NICKNAMES[text.toLowerCase()] ?? text).split(/\s+/)
  const [first, ...rest] = parts
  if (first === undefined || (parts.length !== 5 && parts.length !== 6)) return null
  const [minute, hour, day, month, weekday] = parts.length === 6 ? rest : parts
  if (
    minute === undefined ||
    hour === undefined ||
    day === undefined ||
    month === undefined ||
    weekday === undefined ||
    minute === ''
  )
    return null
  return { second: parts.length === 6 ? first : null, minute, hour, day, month, weekday }
}

export function expressionOf(fields: Fields): string {
  const { second, minute, hour, day, month, weekday } = fields
  const words = [minute, hour, day, month, weekday].map(word => word.replaceAll(/\s+/g, '') || '*')
  if (second !== null) words.unshift(second.replaceAll(/\s+/g, '') || '0')
  return words.join(' ')
}

function number(text: string, least: number, most: number): number | null {
  if (!/^\d{1,2}$/.test(text)) return null
  const value = Number(text)
  return value >= least && value <= most ? value : null
}

const DAY_WORDS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT']

function dayNumber(text: string): number | null {
  const word = DAY_WORDS.indexOf(text.toUpperCase())
  if (word >= 0) return word
  const value = number(text, 0, 7)
  return value === null ? null : value % 7
}

/** Returns the days of a text such as `1-5,0`, which stands for the days 1 to 5 and 0. */
function daysOf(text: string): number[] | null {
  const days = new Set<number>()
  for (const part of text.split(',')) {
    const [from, to, ...more] = part.split('-')
    const first = dayNumber(from ?? '')
    const last = to === undefined ? first : dayNumber(to)
    if (first === null || last === null || more.length > 0) return null
    const end = last < first ? last + 7 : last
    for (let day = first; day <= end; day++) days.add(day % 7)
  }
  return WEEK.filter(day => days.has(day))
}

function isFree(field: string): boolean {
  return field === '*' || field === '?'
}

/** Returns the common pattern of an expression. Returns null if there is none; the builder then shows the fields. */
export function simpleOf(expression: string): Simple | null {
  const fields = fieldsOf(expression)
  if (fields === null || (fields.second !== null && fields.second !== '0')) return null
  if (fields.hour === '*') return withinHour(fields)
  const minute = number(fields.minute, 0, 59)
  const hour = number(fields.hour, 0, 23)
  return minute === null || hour === null ? null : onDays(fields, { hour, minute })
}

function withinHour({ minute, day, month, weekday }: Fields): Simple | null {
  if (!isFree(day) || month !== '*' || !isFree(weekday)) return null
  const step = minute === '*' ? 1 : Number(/^(?:\*|0)\/(\d{1,2})$/.exec(minute)?.[1] ?? Number.NaN)
  if ((MINUTE_STEPS as readonly number[]).includes(step)) return { kind: 'minutes', every: step }
  const at = number(minute, 0, 59)
  return at === null ? null : { kind: 'hourly', minute: at }
}

function onDays({ day, month, weekday }: Fields, time: { hour: number; minute: number }): Simple | null {
  if (isFree(day) && month === '*') {
    const days = isFree(weekday) ? [...WEEK] : daysOf(weekday)
    return days === null ? null : days.length === 7 ? { kind: 'daily', ...time } : { kind: 'weekly', days, ...time }
  }
  const atDay = number(day, 1, 31)
  if (atDay === null || !isFree(weekday)) return null
  if (month === '*') return { kind: 'monthly', day: atDay, ...time }
  const atMonth = number(month, 1, 12)
  return atMonth === null ? null : { kind: 'yearly', month: atMonth, day: atDay, ...time }
}

export function simpleExpression(simple: Simple): string {
  switch (simple.kind) {
    case 'minutes':
      return simple.every === 1 ? '* * * * *' : `*/${simple.every} * * * *`
    case 'hourly':
      return `${simple.minute} * * * *`
    case 'daily':
      return `${simple.minute} ${simple.hour} * * *`
    case 'weekly':
      return `${simple.minute} ${simple.hour} * * ${weekText(simple.days)}`
    case 'monthly':
      return `${simple.minute} ${simple.hour} ${simple.day} * *`
    case 'yearly':
      return `${simple.minute} ${simple.hour} ${simple.day} ${simple.month} *`
  }
}

function weekText(days: readonly number[]): string {
  const chosen = WEEK.filter(day => days.includes(day))
  if (chosen.length === 0) return '*'
  if (chosen.join() === '1,2,3,4,5') return '1-5'
  return chosen.join(',')
}

/** Returns a pattern of another kind. It keeps the parts that both kinds have, such as the time of day. */
export function asKind(before: Simple | null, kind: Simple['kind']): Simple {
  const minute = before !== null && 'minute' in before ? before.minute : 0
  const hour = before !== null && 'hour' in before ? before.hour : 9
  const day = before !== null && 'day' in before ? before.day : 1
  switch (kind) {
    case 'minutes':
      return { kind, every: before?.kind === 'minutes' ? before.every : 15 }
    case 'hourly':
      return { kind, minute }
    case 'daily':
      return { kind, hour, minute }
    case 'weekly':
      return { kind, days: before?.kind === 'weekly' ? before.days : [1, 2, 3, 4, 5], hour, minute }
    case 'monthly':
      return { kind, day, hour, minute }
    case 'yearly':
      return { kind, month: before?.kind === 'yearly' ? before.month : 1, day, hour, minute }
  }
}
