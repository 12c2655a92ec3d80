import type { CalendarEntry } from '@/api/types'
import { Section } from '@/layout/page'
import { serverNow } from '@/lib/clock'
import { isZone, partsOf, plural } from '@/lib/time'
import { Button, IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Field, Input, Segments } from '@/ui/field'
import { EntryWords } from '../calendars/entry-words'
import { type EntryKind, emptyEntry, kindOfEntry } from '../calendars/words'
import type { Editor } from '../job-editor/editor'
import { TextValue, WordsValue } from '../job-editor/fields'

const KINDS: readonly { value: EntryKind; label: string; add: string }[] = [
  { value: 'dates', label: 'Days', add: 'Days' },
  { value: 'range', label: 'From – to', add: 'A range' },
  { value: 'windows', label: 'Repeated', add: 'A repeated time' },
]

/** The form for the entries of a calendar, with one box per entry. */
export function EntriesForm({ editor }: { editor: Editor }) {
  const value = editor.value('/entries')
  const entries = Array.isArray(value) ? (value as CalendarEntry[]) : []
  const zone = editor.string('/timezone') || 'UTC'
  const today = todayIn(zone)
  const error = editor.errors.find(item => item.pointer === '/entries')?.detail
  const add = (kind: EntryKind) => editor.set('/entries', [...entries, emptyEntry(kind, today)])
  return (
    <Section
      title={
        <>
          Closed <span className="font-normal text-ink-3">{plural(entries.length, 'entry', 'entries')}</span>
        </>
      }
    >
      {error !== undefined && (
        <p role="alert" className="border-b bg-bad-soft px-4 py-2 text-sm">
          {error}
        </p>
      )}
      {entries.length === 0 && (
        <p className="px-4 pt-4 text-ink-2 text-sm">
          Without an entry the calendar is always open. Add the times at which jobs do not fire.
        </p>
      )}
      <ol className="divide-y">
        {entries.map((entry, index) => (
          <EntryForm key={index} editor={editor} entry={entry} index={index} zone={zone} today={today} />
        ))}
      </ol>
      <div className={cx('flex flex-wrap items-center gap-2 p-3', entries.length > 0 && 'border-t')}>
        <span className="pl-1 text-ink-2 text-xs">Add</span>
        {KINDS.map(kind => (
          <Button key={kind.value} small icon="plus" onClick={() => add(kind.value)}>
            {kind.add}
          </Button>
        ))}
      </div>
    </Section>
  )
}

function EntryForm({
  editor,
  entry,
  index,
  zone,
  today,
}: {
  editor: Editor
  entry: CalendarEntry
  index: number
  zone: string
  today: string
}) {
  const kind = kindOfEntry(entry)
  const at = `/entries/${index}`
  // The API reports an error of the whole entry if two of its fields contradict each other.
  const error = editor.errors.find(item => item.pointer === at)?.detail
  const choose = (next: EntryKind) => {
    if (next === kind) return
    const reason = entry.reason === undefined ? {} : { reason: entry.reason }
    editor.set(at, { ...emptyEntry(next, today), ...reason })
  }
  return (
    <li className={cx('grid grid-cols-1 gap-3 p-4', error !== undefined && 'bg-bad-soft')}>
      <div className="flex flex-wrap items-center gap-2">
        <Segments
          label={`Kind of entry ${index + 1}`}
          value={kind}
          onChange={choose}
          options={KINDS.map(item => ({ value: item.value, label: item.label }))}
        />
        <span className="min-w-0 flex-1 truncate text-ink-3 text-xs">
          <EntryWords entry={entry} timezone={zone} />
        </span>
        <IconButton label={`Remove entry ${index + 1}`} icon="trash" onClick={() => editor.set(at, undefined)} />
      </div>
      <div className="grid items-start gap-3 sm:grid-cols-2">
        {kind === 'dates' && <Dates editor={editor} at={at} entry={entry} today={today} />}
        {kind === 'range' && (
          <>
            <LocalTime editor={editor} at={`${at}/from`} label="From" hint="Closed from this time on." />
            <LocalTime editor={editor} at={`${at}/to`} label="To" hint="Open again at this time." />
          </>
        )}
        {kind === 'windows' && (
          <>
            <TextValue
              editor={editor}
              at={`${at}/cron`}
              label="Begins at"
              hint="A cron expression: minute, hour, day, month, weekday."
              placeholder="0 22 * * FRI"
              mono
              keepEmpty
            />
            <TextValue
              editor={editor}
              at={`${at}/for`}
              label="For"
              hint="1m to 366d, in elapsed time: 90m, 58h, 2d."
              placeholder="58h"
              keepEmpty
            />
          </>
        )}
        <TextValue
          editor={editor}
          at={`${at}/reason`}
          label="Reason"
          hint="The ledger shows it for each fire that is skipped."
          placeholder="public holiday"
          className="sm:col-span-2"
        />
      </div>
      {error !== undefined && (
        <p role="alert" className="text-bad text-sm [overflow-wrap:anywhere]">
          {error}
        </p>
      )}
    </li>
  )
}

function Dates({ editor, at, entry, today }: { editor: Editor; at: string; entry: CalendarEntry; today: string }) {
  const dates = entry.dates ?? []
  const add = (date: string) => {
    if (date !== '' && !dates.includes(date)) editor.set(`${at}/dates`, [...dates, date].toSorted())
  }
  return (
    <>
      <WordsValue
        editor={editor}
        at={`${at}/dates`}
        label="Days"
        hint="Whole days, with commas between them: 2026-12-25, 2027-01-01."
        placeholder={today}
      />
      <Field label="Add a day" hint="Choose a day, and it is added to the list.">
        {control => (
          <Input
            {...control}
            type="date"
            min="1970-01-02"
            max="9998-12-31"
            onChange={event => add(event.target.value)}
          />
        )}
      </Field>
    </>
  )
}

const LOCAL = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/

/** A field for a local time. A time with an offset is edited as text. */
function LocalTime({ editor, at, label, hint }: { editor: Editor; at: string; label: string; hint: string }) {
  const value = editor.string(at)
  const isLocal = value === '' || LOCAL.test(value)
  return (
    <Field label={label} hint={hint} error={editor.error(at)}>
      {control => (
        <Input
          {...control}
          type={isLocal ? 'datetime-local' : 'text'}
          value={value}
          onChange={event => editor.set(at, event.target.value)}
        />
      )}
    </Field>
  )
}

function todayIn(zone: string): string {
  const p = partsOf(serverNow(), isZone(zone) ? zone : 'UTC')
  return `${p.year}-${p.month}-${p.day}`
}
