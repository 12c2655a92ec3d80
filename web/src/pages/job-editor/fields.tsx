import { type ReactNode, useState } from 'react'
import { Button, IconButton } from '@/ui/button'
import { Field, Input, Select, TextArea } from '@/ui/field'
import type { Editor } from './editor'

/** Fields of the form. Each one edits the value at its JSON pointer, and shows the error of the API for this value. */

type Props = {
  editor: Editor
  at: string
  label: ReactNode
  hint?: ReactNode
  className?: string
}

export function TextValue({
  editor,
  at,
  label,
  hint,
  className,
  placeholder,
  mono = false,
  keepEmpty = false,
  suggestions,
  autoFocus = false,
}: Props & {
  placeholder?: string
  mono?: boolean
  /** True if an empty text is stored in the document. Otherwise an empty text removes the value. */
  keepEmpty?: boolean
  suggestions?: readonly string[]
  autoFocus?: boolean
}) {
  const list = suggestions === undefined ? undefined : `list${at.replaceAll('/', '-')}`
  return (
    <Field label={label} hint={hint} error={editor.error(at)} className={className}>
      {control => (
        <>
          <Input
            {...control}
            value={editor.string(at)}
            placeholder={placeholder}
            autoFocus={autoFocus}
            list={list}
            onChange={event => editor.set(at, event.target.value === '' && !keepEmpty ? undefined : event.target.value)}
            className={mono ? 'font-mono text-xs' : undefined}
          />
          {list !== undefined && (
            <datalist id={list}>
              {suggestions?.map(item => (
                <option key={item} value={item} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Field>
  )
}

export function LongText({
  editor,
  at,
  label,
  hint,
  className,
  rows = 2,
  mono = false,
  placeholder,
  keepEmpty = false,
}: Props & { rows?: number; mono?: boolean; placeholder?: string; keepEmpty?: boolean }) {
  return (
    <Field label={label} hint={hint} error={editor.error(at)} className={className}>
      {control => (
        <TextArea
          {...control}
          rows={rows}
          value={editor.string(at)}
          placeholder={placeholder}
          onChange={event => editor.set(at, event.target.value === '' && !keepEmpty ? undefined : event.target.value)}
          className={mono ? 'font-mono text-xs' : undefined}
        />
      )}
    </Field>
  )
}

/** A field for a number. A text that is no number is kept as text, so that the API reports the error. */
export function NumberValue({ editor, at, label, hint, className, placeholder }: Props & { placeholder?: string }) {
  return (
    <Field label={label} hint={hint} error={editor.error(at)} className={className}>
      {control => (
        <Input
          {...control}
          inputMode="decimal"
          value={editor.string(at)}
          placeholder={placeholder}
          onChange={event => {
            const text = event.target.value.trim()
            const isNumber = /^-?(0|[1-9]\d*)(\.\d*[1-9])?$/.test(text)
            editor.set(at, text === '' ? undefined : isNumber ? Number(text) : text)
          }}
        />
      )}
    </Field>
  )
}

export function ChoiceValue({
  editor,
  at,
  label,
  hint,
  className,
  options,
  fallback,
}: Props & { options: readonly { value: string; label: string }[]; fallback: string }) {
  const value = editor.string(at) || fallback
  const known = options.some(option => option.value === value)
  return (
    <Field label={label} hint={hint} error={editor.error(at)} className={className}>
      {control => (
        <Select
          {...control}
          value={value}
          onChange={event => editor.set(at, event.target.value === fallback ? undefined : event.target.value)}
        >
          {options.map(option => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
          {!known && <option value={value}>{value}</option>}
        </Select>
      )}
    </Field>
  )
}

export function CheckValue({ editor, at, label, hint, fallback = false }: Props & { fallback?: boolean }) {
  const value = editor.value(at)
  const checked = typeof value === 'boolean' ? value : fallback
  const error = editor.error(at)
  return (
    <label className="flex items-start gap-2 text-sm">
      <input
        type="checkbox"
        checked={checked}
        onChange={event => editor.set(at, event.target.checked === fallback ? undefined : event.target.checked)}
        className="mt-0.5 size-4 accent-accent"
      />
      <span>
        {label}
        <span className={error === undefined ? 'block text-ink-3 text-xs' : 'block text-bad text-xs'}>
          {error ?? hint}
        </span>
      </span>
    </label>
  )
}

/** A field for a list of words, separated by commas. */
export function WordsValue({
  editor,
  at,
  label,
  hint,
  className,
  placeholder,
  suggestions = [],
  numbers = false,
}: Props & { placeholder?: string; suggestions?: readonly string[]; numbers?: boolean }) {
  const value = editor.value(at)
  const words = Array.isArray(value) ? value.map(String) : []
  const [draft, setDraft] = useState<string | null>(null)
  const save = (text: string) => {
    const next = text
      .split(',')
      .map(word => word.trim())
      .filter(word => word !== '')
    const read = (word: string) => (numbers && /^\d{1,9}$/.test(word) ? Number(word) : word)
    editor.set(at, next.length === 0 ? undefined : next.map(read))
  }
  const missing = suggestions.filter(item => !words.includes(item)).slice(0, 6)
  return (
    <Field label={label} hint={hint} error={editor.error(at)} className={className}>
      {control => (
        <>
          <Input
            {...control}
            value={draft ?? words.join(', ')}
            placeholder={placeholder}
            onChange={event => {
              setDraft(event.target.value)
              save(event.target.value)
            }}
            onBlur={() => setDraft(null)}
          />
          {missing.length > 0 && (
            <span className="flex flex-wrap gap-1">
              {missing.map(item => (
                <Button key={item} small look="quiet" icon="plus" onClick={() => save([...words, item].join(','))}>
                  <span className="bidi-plain max-w-40 truncate">{item}</span>
                </Button>
              ))}
            </span>
          )}
        </>
      )}
    </Field>
  )
}

/** Fields for pairs of a name and a value, such as headers or environment variables. */
export function PairsValue({ editor, at, label, hint, names }: Props & { names: { key: string; value: string } }) {
  const value = editor.value(at)
  const pairs = typeof value === 'object' && value !== null ? Object.entries(value) : []
  const [drafts, setDrafts] = useState<number>(0)
  const error = editor.error(at)
  const save = (next: readonly (readonly [string, unknown])[]) => {
    const kept = next.filter(([name]) => name !== '')
    editor.set(at, kept.length === 0 ? undefined : Object.fromEntries(kept))
  }
  const rows = [...pairs, ...Array.from({ length: drafts }, () => ['', ''] as [string, unknown])]
  return (
    <fieldset className="grid gap-1.5">
      <legend className="mb-1 font-medium text-ink-2 text-xs">{label}</legend>
      {rows.map(([name, item], index) => (
        <div key={index} className="flex gap-1.5">
          <Input
            aria-label={`${names.key} ${index + 1}`}
            placeholder={names.key}
            value={name}
            onChange={event => {
              if (index >= pairs.length) setDrafts(count => Math.max(0, count - 1))
              save(rows.map((row, at) => (at === index ? [event.target.value, row[1]] : row)))
            }}
            className="max-w-[40%] font-mono text-xs"
          />
          <Input
            aria-label={`${names.value} ${index + 1}`}
            placeholder={names.value}
            value={typeof item === 'string' ? item : JSON.stringify(item)}
            onChange={event => save(rows.map((row, at) => (at === index ? [row[0], event.target.value] : row)))}
            className="font-mono text-xs"
          />
          <IconButton
            label="Remove"
            icon="trash"
            onClick={() => {
              if (index >= pairs.length) setDrafts(count => count - 1)
              else save(pairs.filter((_, at) => at !== index))
            }}
          />
        </div>
      ))}
      <div className="flex items-center gap-3">
        <Button small icon="plus" look="quiet" onClick={() => setDrafts(count => count + 1)}>
          Add
        </Button>
        {(error ?? hint) !== undefined && (
          <p className={error === undefined ? 'text-ink-3 text-xs' : 'text-bad text-xs'}>{error ?? hint}</p>
        )}
      </div>
    </fieldset>
  )
}

/** A field for a value as JSON text. While the text is not valid JSON, the document keeps the last valid value. */
export function JsonValue({
  editor,
  at,
  label,
  hint,
  className,
  rows = 4,
  textIsText = false,
}: Props & { rows?: number /** `textIsText`: text that is not JSON is stored as a string. */; textIsText?: boolean }) {
  const value = editor.value(at)
  const shown =
    value === undefined ? '' : textIsText && typeof value === 'string' ? value : JSON.stringify(value, null, 2)
  const [draft, setDraft] = useState<string | null>(null)
  const read = (text: string): { value: unknown } | null => {
    if (text.trim() === '') return { value: undefined }
    try {
      return { value: JSON.parse(text) as unknown }
    } catch {
      return textIsText ? { value: text } : null
    }
  }
  const broken = draft !== null && read(draft) === null
  return (
    <Field
      label={label}
      hint={hint}
      error={editor.error(at) ?? (broken ? 'This is no JSON yet.' : undefined)}
      className={className}
    >
      {control => (
        <TextArea
          {...control}
          rows={rows}
          value={draft ?? shown}
          onChange={event => {
            setDraft(event.target.value)
            const found = read(event.target.value)
            if (found !== null) editor.set(at, found.value)
          }}
          onBlur={() => broken || setDraft(null)}
          className="font-mono text-xs"
        />
      )}
    </Field>
  )
}
