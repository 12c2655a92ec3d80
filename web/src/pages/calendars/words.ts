import type { CalendarEntry } from '@/api/types'
import { plural } from '@/lib/time'

/** Describes the entries of a calendar in words. */

export type EntryKind = 'dates' | 'range' | 'windows'

export function kindOfEntry(entry: CalendarEntry): EntryKind {
  if (entry.cron != null || entry.for != null) return 'windows'
  return entry.from != null || entry.to != null ? 'range' : 'dates'
}

const MAX_DATES = 4

/** `cron` is the server's description of the expression. */
export function entryWords(entry: CalendarEntry, cron: string | null = null): string {
  switch (kindOfEntry(entry)) {
    case 'dates': {
      const dates = entry.dates ?? []
      const shown = dates.length > MAX_DATES + 1 ? dates.slice(0, MAX_DATES) : dates
      const rest = dates.length - shown.length
      return `${dates.length === 1 ? 'All of' : `${plural(dates.length, 'day')}:`} ${shown.map(dateText).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
    }
    case 'range':
      return `From ${timeText(entry.from ?? '')} until ${timeText(entry.to ?? '')}`
    case 'windows':
      return `For ${entry.for ?? '?'} each time, ${cron === null ? `beginning at ${entry.cron ?? '?'}` : lowerFirst(cron)}`
  }
}

/** Returns the summary of a calendar for a list: the reasons, or the number of entries. */
export function summary(entries: readonly CalendarEntry[]): string {
  const reasons = [...new Set(entries.map(entry => entry.reason ?? '').filter(reason => reason !== ''))]
  const count = entries.length === 0 ? 'always open' : plural(entries.length, 'entry', 'entries')
  return reasons.length === 0 ? count : `${count}: ${reasons.join(', ')}`
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

function dateText(text: string): string {
  const match = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text)
  return match === null ? text : `${Number(match[3])} ${MONTHS[Number(match[2]) - 1] ?? '?'} ${match[1]}`
}

function timeText(text: string): string {
  const match = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(?::00)?$/.exec(text)
  return match === null ? text : `${dateText(match[1] ?? '')} ${match[2]}`
}

function lowerFirst(text: string): string {
  const plain = text.replace(/\.$/, '')
  return plain.charAt(0).toLowerCase() + plain.slice(1)
}

/** Returns a new entry of a kind. */
export function emptyEntry(kind: EntryKind, today: string): CalendarEntry {
  switch (kind) {
    case 'dates':
      return { dates: [today] }
    case 'range':
      return { from: `${today}T00:00`, to: `${today}T23:59` }
    case 'windows':
      return { cron: '0 22 * * FRI', for: '58h' }
  }
}
