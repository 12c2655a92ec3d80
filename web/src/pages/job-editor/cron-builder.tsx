import { useState } from 'react'
import { DAY_NAMES, MONTH_NAMES } from '@/lib/calendar-names'
import { cx } from '@/ui/cx'
import { Field, Input, Segments, Select } from '@/ui/field'
import type { Editor } from './editor'
import { TextValue } from './fields'
import {
  asKind,
  expressionOf,
  FIELD_HINTS,
  type FieldName,
  type Fields,
  fieldsOf,
  MINUTE_STEPS,
  type Simple,
  simpleExpression,
  simpleOf,
  WEEK,
} from './model/cron'

const AT = '/schedule/expression'

const MINUTES = Array.from({ length: 60 }, (_, value) => ({ value, label: String(value).padStart(2, '0') }))

const SHAPES: readonly { value: Simple['kind']; label: string }[] = [
  { value: 'minutes', label: 'Minutes' },
  { value: 'hourly', label: 'Hour' },
  { value: 'daily', label: 'Day' },
  { value: 'weekly', label: 'Week' },
  { value: 'monthly', label: 'Month' },
  { value: 'yearly', label: 'Year' },
]

/** Edits a cron expression as a common pattern, by its fields, or as text. All three views show the same expression. */
export function CronBuilder({ editor }: { editor: Editor }) {
  const expression = editor.string(AT)
  const simple = simpleOf(expression)
  const [byFields, setByFields] = useState(simple === null)
  const fields = fieldsOf(expression)
  const mode = byFields || simple === null ? 'fields' : 'shape'
  const set = (next: Simple) => editor.set(AT, simpleExpression(next))
  return (
    <div className="grid grid-cols-1 gap-3 rounded-md border bg-sunken p-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <Segments
          label="Cron builder"
          value={mode}
          onChange={next => {
            setByFields(next === 'fields')
            if (next === 'shape' && simple === null) set(asKind(null, 'daily'))
          }}
          options={[
            { value: 'shape', label: 'Every …' },
            { value: 'fields', label: 'Fields' },
          ]}
        />
        {mode === 'shape' && simple !== null && (
          <div className="overflow-x-auto">
            <Segments
              label="Fires every"
              value={simple.kind}
              onChange={kind => set(asKind(simple, kind))}
              options={SHAPES}
            />
          </div>
        )}
      </div>
      {mode === 'shape' && simple !== null ? (
        <ShapeForm simple={simple} onChange={set} />
      ) : (
        <FieldsForm fields={fields} onChange={next => editor.set(AT, expressionOf(next))} />
      )}
      <TextValue editor={editor} at={AT} label="Expression" mono keepEmpty placeholder="0 2 * * MON-FRI" />
    </div>
  )
}

function ShapeForm({ simple, onChange }: { simple: Simple; onChange: (next: Simple) => void }) {
  if (simple.kind === 'minutes')
    return (
      <Pick
        label="Every"
        value={simple.every}
        options={MINUTE_STEPS.map(step => ({ value: step, label: step === 1 ? 'minute' : `${step} minutes` }))}
        onChange={every => onChange({ kind: 'minutes', every })}
      />
    )
  if (simple.kind === 'hourly')
    return (
      <Pick
        label="At minute"
        value={simple.minute}
        options={MINUTES}
        onChange={minute => onChange({ kind: 'hourly', minute })}
      />
    )
  return (
    <div className="flex flex-wrap items-end gap-3">
      {simple.kind === 'weekly' && <Days simple={simple} onChange={onChange} />}
      {simple.kind === 'yearly' && (
        <Pick
          label="Month"
          value={simple.month}
          options={MONTH_NAMES.map((label, at) => ({ value: at + 1, label }))}
          onChange={month => onChange({ ...simple, month })}
        />
      )}
      {(simple.kind === 'monthly' || simple.kind === 'yearly') && (
        <Pick
          label="Day"
          value={simple.day}
          options={Array.from({ length: 31 }, (_, at) => ({ value: at + 1, label: String(at + 1) }))}
          onChange={day => onChange({ ...simple, day })}
        />
      )}
      <Pick
        label="Hour"
        value={simple.hour}
        options={Array.from({ length: 24 }, (_, value) => ({ value, label: String(value).padStart(2, '0') }))}
        onChange={hour => onChange({ ...simple, hour })}
      />
      <Pick
        label="Minute"
        value={simple.minute}
        options={MINUTES}
        onChange={minute => onChange({ ...simple, minute })}
      />
    </div>
  )
}

function Days({ simple, onChange }: { simple: Extract<Simple, { kind: 'weekly' }>; onChange: (next: Simple) => void }) {
  return (
    <fieldset className="grid grid-cols-1 gap-1">
      <legend className="mb-1 font-medium text-ink-2 text-xs">Days</legend>
      <div className="flex gap-1">
        {WEEK.map(day => {
          const chosen = simple.days.includes(day)
          const days = chosen ? simple.days.filter(other => other !== day) : [...simple.days, day]
          return (
            <button
              key={day}
              type="button"
              aria-pressed={chosen}
              // A weekly pattern has at least one day.
              onClick={() => days.length > 0 && onChange({ ...simple, days })}
              className={cx(
                'size-8 rounded-md border text-xs',
                chosen
                  ? 'border-transparent bg-accent font-medium text-on-accent'
                  : 'border-line-strong bg-surface text-ink-2',
              )}
            >
              <span aria-hidden="true">{DAY_NAMES[day]?.slice(0, 2)}</span>
              <span className="sr-only">{DAY_NAMES[day]}</span>
            </button>
          )
        })}
      </div>
    </fieldset>
  )
}

function Pick({
  label,
  value,
  options,
  onChange,
}: {
  label: string
  value: number
  options: readonly { value: number; label: string }[]
  onChange: (value: number) => void
}) {
  return (
    <Field label={label} className="max-w-40">
      {control => (
        <Select {...control} value={value} onChange={event => onChange(Number(event.target.value))}>
          {options.map(option => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </Select>
      )}
    </Field>
  )
}

const FIELD_NAMES: readonly { name: Exclude<FieldName, 'second'>; label: string }[] = [
  { name: 'minute', label: 'Minute' },
  { name: 'hour', label: 'Hour' },
  { name: 'day', label: 'Day' },
  { name: 'month', label: 'Month' },
  { name: 'weekday', label: 'Weekday' },
]

function FieldsForm({ fields, onChange }: { fields: Fields | null; onChange: (fields: Fields) => void }) {
  const shown: Fields = fields ?? { second: null, minute: '0', hour: '*', day: '*', month: '*', weekday: '*' }
  return (
    <div className="grid grid-cols-1 gap-2">
      <div className="grid grid-cols-3 gap-2 sm:grid-cols-6">
        {shown.second !== null && (
          <Field label="Second" hint={FIELD_HINTS.second}>
            {control => (
              <Input
                {...control}
                value={shown.second ?? ''}
                onChange={event => onChange({ ...shown, second: event.target.value })}
                className="font-mono text-xs"
              />
            )}
          </Field>
        )}
        {FIELD_NAMES.map(({ name, label }) => (
          <Field key={name} label={label} hint={FIELD_HINTS[name]}>
            {control => (
              <Input
                {...control}
                value={shown[name]}
                onChange={event => onChange({ ...shown, [name]: event.target.value })}
                className="font-mono text-xs"
              />
            )}
          </Field>
        ))}
      </div>
      <label className="flex items-center gap-2 text-ink-2 text-xs">
        <input
          type="checkbox"
          checked={shown.second !== null}
          onChange={event => onChange({ ...shown, second: event.target.checked ? '0' : null })}
          className="accent-accent"
        />
        Fire at a second of the minute
      </label>
    </div>
  )
}
