import { useState } from 'react'
import { serverNow } from '@/lib/clock'
import { agoMillis } from '@/lib/range'
import { zone } from '@/lib/settings'
import { instant, oneUnit, shortDateTime } from '@/lib/time'
import { Button } from '@/ui/button'
import { Field, Input } from '@/ui/field'
import { Popover } from '@/ui/popover'
import { Chip } from './filter-chips'

type Range = { startTime?: string | undefined; endTime?: string | undefined }

const PRESETS = ['15m', '1h', '24h', '7d', '30d'] as const

/** A filter by time: the last hours or days, or a range between two times. */
export function RangeChip({
  startTime,
  endTime,
  onChange,
  label = 'Due',
}: Range & { onChange: (range: Range) => void; label?: string }) {
  const [open, setOpen] = useState(false)
  const choose = (range: Range) => {
    onChange(range)
    setOpen(false)
  }
  return (
    <Popover
      label={`Filter by time: ${label.toLowerCase()}`}
      open={open}
      onOpenChange={setOpen}
      trigger={
        <Chip
          label={label}
          value={words({ startTime, endTime })}
          onClear={() => onChange({ startTime: undefined, endTime: undefined })}
        />
      }
    >
      <div className="grid w-72 max-w-full gap-3">
        <div className="flex flex-wrap gap-1.5">
          {PRESETS.map(preset => (
            <Button
              key={preset}
              small
              look={startTime === preset ? 'primary' : 'plain'}
              onClick={() => choose({ startTime: preset, endTime: undefined })}
            >
              {`last ${oneUnit(agoMillis(preset) ?? 0)}`}
            </Button>
          ))}
        </div>
        <form
          className="grid gap-2 border-t pt-3"
          onSubmit={event => {
            event.preventDefault()
            const form = new FormData(event.currentTarget)
            choose({ startTime: readLocal(form.get('from')), endTime: readLocal(form.get('to')) })
          }}
        >
          <Field label="From">
            {control => (
              <Input {...control} name="from" type="datetime-local" step={1} defaultValue={writeLocal(startTime)} />
            )}
          </Field>
          <Field label="To">
            {control => (
              <Input {...control} name="to" type="datetime-local" step={1} defaultValue={writeLocal(endTime)} />
            )}
          </Field>
          <p className="text-ink-3 text-xs">Times of this computer's zone.</p>
          <Button small look="primary" type="submit" className="justify-self-end">
            Apply
          </Button>
        </form>
      </div>
    </Popover>
  )
}

/** Returns the range as text, or null if there is none. */
export function words({ startTime, endTime }: Range): string | null {
  if (startTime === undefined && endTime === undefined) return null
  const ago = startTime === undefined ? null : agoMillis(startTime)
  if (ago !== null && endTime === undefined) return `last ${oneUnit(ago)}`
  const write = (text: string | undefined) => {
    const at = instant(text)
    return at === null ? (text ?? '') : shortDateTime(at, serverNow(), zone.get())
  }
  if (endTime === undefined) return `since ${write(startTime)}`
  if (startTime === undefined) return `until ${write(endTime)}`
  return `${write(startTime)} to ${write(endTime)}`
}

function readLocal(value: FormDataEntryValue | null): string | undefined {
  if (typeof value !== 'string' || value === '') return undefined
  const at = new Date(value)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}

/** Formats a time as `2026-03-01T12:00:00` in the zone of the browser, as its field for local times expects. */
function writeLocal(text: string | undefined): string {
  const ago = text === undefined ? null : agoMillis(text)
  const at = ago === null ? instant(text) : serverNow() - ago
  if (at === null) return ''
  const date = new Date(at)
  return new Date(at - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}
