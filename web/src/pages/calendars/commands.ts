import type { CalendarEntry } from '@/api/types'
import { type Commands, cli, curl, python, shellWord } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

const calendar = (name: string) => apiUrl(`/v1/calendars/${encodeURIComponent(name)}`)

export function putCommands(name: string, body: Readonly<Record<string, unknown>>): Commands {
  const { entries, timezone, description } = body
  return {
    curl: curl('PUT', calendar(name), body),
    cli: `echo ${shellWord(JSON.stringify(body))} | ${cli(['calendars', 'set', name], { file: '-' })}`,
    python: python('put_calendar', [name, entries ?? []], { timezone, description }),
  }
}

export function deleteCommands(name: string): Commands {
  return {
    curl: curl('DELETE', calendar(name)),
    cli: cli(['calendars', 'delete', name]),
    python: python('delete_calendar', [name]),
  }
}

export function closedCommands(
  name: string,
  body: { timezone: string; entries: readonly CalendarEntry[] },
  period: { from: number; to: number },
): Commands {
  const range = { from: new Date(period.from).toISOString(), to: new Date(period.to).toISOString() }
  return {
    curl: curl('POST', apiUrl('/v1/calendars:preview'), { calendar: body, ...range }),
    cli: cli(['calendars', 'closed', name], range),
    python: python('preview_calendar', [body.entries], { timezone: body.timezone, since: range.from, until: range.to }),
  }
}
