import { useQuery } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { instant, zoneName } from '@/lib/time'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Segments } from '@/ui/field'
import { CronBuilder } from './cron-builder'
import type { Editor } from './editor'
import { ChoiceValue, TextValue } from './fields'
import type { JobDocument } from './model/document'

const TYPES = [
  { value: 'cron', label: 'Cron' },
  { value: 'interval', label: 'Interval' },
  { value: 'window', label: 'Window' },
  { value: 'date', label: 'Once' },
  { value: 'immediate', label: 'Now' },
  { value: 'follow', label: 'After a job' },
] as const
type Type = (typeof TYPES)[number]['value']

export const ZONES: readonly string[] = ['UTC', ...Intl.supportedValuesOf('timeZone').filter(zone => zone !== 'UTC')]

function emptySchedule(type: Type, timezone: string): JobDocument {
  switch (type) {
    case 'cron':
      return { type, expression: '0 9 * * *', timezone }
    case 'interval':
      return { type, expression: '15m' }
    case 'window':
      return { type, from: '01:00', to: '05:00', timezone }
    case 'date':
      return {
        type,
        expression: new Date(Math.ceil(Date.now() / 3_600_000 + 1) * 3_600_000).toISOString().replace('.000', ''),
      }
    case 'immediate':
      return { type }
    case 'follow':
      return { type, job: '' }
  }
}

/** The form for the schedule of a job. */
export function ScheduleForm({ editor }: { editor: Editor }) {
  const given = editor.string('/schedule/type')
  const type = TYPES.find(item => item.value === given)?.value ?? 'immediate'
  const choose = (next: Type) => {
    if (next !== type)
      editor.set('/schedule', emptySchedule(next, editor.string('/schedule/timezone') || zoneName('local')))
  }
  return (
    <div className="grid grid-cols-1 gap-4">
      <div className="overflow-x-auto">
        <Segments label="Type of schedule" value={type} onChange={choose} options={TYPES} />
      </div>
      {type === 'cron' && (
        <>
          <CronBuilder editor={editor} />
          <ZoneForm editor={editor} />
        </>
      )}
      {type === 'interval' && (
        <TextValue
          editor={editor}
          at="/schedule/expression"
          label="Every"
          hint="90s, 15m, 1h30m. The first fire is one interval after the job is made, or after its start."
          placeholder="15m"
          keepEmpty
          className="max-w-72"
        />
      )}
      {type === 'window' && <WindowForm editor={editor} />}
      {type === 'date' && <DateForm editor={editor} />}
      {type === 'immediate' && <p className="text-ink-2 text-sm">Once, as soon as it is saved.</p>}
      {type === 'follow' && <FollowForm editor={editor} />}
    </div>
  )
}

function ZoneForm({ editor }: { editor: Editor }) {
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <TextValue
        className="sm:col-span-2"
        editor={editor}
        at="/schedule/timezone"
        label="Time zone"
        placeholder="UTC"
        suggestions={ZONES}
        hint="Times are local times of this zone."
      />
      <ChoiceValue
        editor={editor}
        at="/schedule/dstGap"
        label="A time that does not exist"
        fallback="run"
        options={[
          { value: 'run', label: 'Run when the clock has moved' },
          { value: 'skip', label: 'Skip' },
        ]}
        hint="When clocks go forward."
      />
      <ChoiceValue
        editor={editor}
        at="/schedule/dstOverlap"
        label="A time that comes twice"
        fallback="first"
        options={[
          { value: 'first', label: 'Run the first time' },
          { value: 'both', label: 'Run both times' },
        ]}
        hint="When clocks go back."
      />
    </div>
  )
}

const DAYS = ['MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT', 'SUN'] as const

function WindowForm({ editor }: { editor: Editor }) {
  const value = editor.value('/schedule/days')
  const days = Array.isArray(value) ? value : []
  return (
    <>
      <p className="text-ink-2 text-sm">
        Once a day between two times. The server chooses the minute with the least load, and keeps it.
      </p>
      <div className="grid grid-cols-2 gap-4 sm:max-w-80">
        <TextValue editor={editor} at="/schedule/from" label="From" placeholder="01:00" keepEmpty />
        <TextValue editor={editor} at="/schedule/to" label="To" placeholder="05:00" keepEmpty />
      </div>
      <fieldset>
        <legend className="mb-1 font-medium text-ink-2 text-xs">Days</legend>
        <div className="flex flex-wrap gap-1">
          {DAYS.map(day => {
            const chosen = days.includes(day) || days.length === 0
            return (
              <button
                key={day}
                type="button"
                aria-pressed={chosen}
                onClick={() => {
                  const before = days.length === 0 ? [...DAYS] : days
                  const next = DAYS.filter(item => (item === day ? !before.includes(item) : before.includes(item)))
                  editor.set('/schedule/days', next.length === 0 || next.length === 7 ? undefined : next)
                }}
                className={cx(
                  'h-8 rounded-md border px-2 text-xs',
                  chosen
                    ? 'border-transparent bg-accent font-medium text-on-accent'
                    : 'border-line-strong bg-surface text-ink-2',
                )}
              >
                {day}
              </button>
            )
          })}
        </div>
      </fieldset>
      <ZoneForm editor={editor} />
    </>
  )
}

function DateForm({ editor }: { editor: Editor }) {
  const at = instant(editor.string('/schedule/expression'))
  const shift = (ms: number) =>
    editor.set(
      '/schedule/expression',
      new Date(Math.round((Date.now() + ms) / 1000) * 1000).toISOString().replace('.000', ''),
    )
  return (
    <div className="grid grid-cols-1 gap-2">
      <TextValue
        editor={editor}
        at="/schedule/expression"
        label="At"
        hint={
          at === null
            ? 'A time with an offset: 2026-03-01T02:00:00Z, or 2026-03-01T02:00:00+01:00.'
            : `${new Date(at).toLocaleString('en-GB')} in your zone. A past time runs at once.`
        }
        mono
        keepEmpty
        className="max-w-96"
      />
      <div className="flex flex-wrap gap-1">
        <Button small onClick={() => shift(600_000)}>
          In 10 minutes
        </Button>
        <Button small onClick={() => shift(3_600_000)}>
          In 1 hour
        </Button>
        <Button small onClick={() => shift(86_400_000)}>
          In 24 hours
        </Button>
      </div>
    </div>
  )
}

function FollowForm({ editor }: { editor: Editor }) {
  const jobs = useQuery({
    queryKey: keys.jobs({ names: true }),
    queryFn: ({ signal }) => api.get('/v1/jobs', { query: { limit: 200 }, signal }),
    staleTime: 60_000,
  })
  const names = [...new Set(jobs.data?.items.map(job => job.name).filter(name => name !== '') ?? [])]
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <TextValue
        editor={editor}
        at="/schedule/job"
        label="Job"
        hint="Its id, or its name if no other job has it."
        suggestions={names}
        keepEmpty
      />
      <ChoiceValue
        editor={editor}
        at="/schedule/on"
        label="When its run"
        fallback="succeeded"
        options={[
          { value: 'succeeded', label: 'succeeded' },
          { value: 'failed', label: 'failed or is dead' },
          { value: 'finished', label: 'finished in either way' },
        ]}
      />
    </div>
  )
}
