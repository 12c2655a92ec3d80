import { useState } from 'react'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import { copyText } from './copy'

/**
 * Shows JSON as coloured text. Values below a certain depth are folded, and long text is truncated. The text is never
 * inserted as HTML.
 */
export function JsonView({
  value,
  className,
  maxLines = 400,
}: {
  value: unknown
  className?: string
  maxLines?: number
}) {
  const [whole, setWhole] = useState(false)
  const text = JSON.stringify(value, null, 2) ?? 'null'
  const lines = text.split('\n')
  const shown = whole ? lines.slice(0, 20_000) : lines.slice(0, maxLines)
  return (
    <div className={cx('group relative rounded-md border bg-sunken', className)}>
      <Button
        small
        look="quiet"
        icon="copy"
        className="absolute top-1 right-1 opacity-0 focus-visible:opacity-100 group-hover:opacity-100"
        onClick={() => void copyText(text)}
      >
        Copy
      </Button>
      <section aria-label="JSON" tabIndex={0} className="max-h-[70vh] overflow-auto">
        <pre className="p-3 font-mono text-xs leading-5">
          {shown.map((line, index) => (
            <JsonLine key={index} line={line} />
          ))}
        </pre>
      </section>
      {lines.length > shown.length && (
        <Button small look="quiet" className="m-1" onClick={() => setWhole(true)}>
          Show all {lines.length.toLocaleString('en-US')} lines
        </Button>
      )}
    </div>
  )
}

const PARTS = /^(\s*)("(?:[^"\\]|\\.)*")(: )?(.*)$/

/**
 * Maximum length of a shown line. The middle of a longer one is left out, because a line of a megabyte makes the page
 * slow. The copied text is complete.
 */
const MAX_LINE_LENGTH = 4000

function JsonLine({ line }: { line: string }) {
  const cut =
    line.length > MAX_LINE_LENGTH
      ? `${line.slice(0, MAX_LINE_LENGTH)} … ${(line.length - MAX_LINE_LENGTH).toLocaleString('en-US')} more characters`
      : line
  const match = PARTS.exec(cut)
  if (match === null)
    return <div className="whitespace-pre-wrap [overflow-wrap:anywhere]">{cut === '' ? ' ' : <Value text={cut} />}</div>
  const [, indent, name, colon, rest] = match
  return (
    <div className="bidi-plain whitespace-pre-wrap [overflow-wrap:anywhere]">
      {indent}
      {colon === undefined ? <span className="text-ok-ink">{name}</span> : <span className="text-ink">{name}</span>}
      {colon}
      <Value text={rest ?? ''} />
    </div>
  )
}

function Value({ text }: { text: string }) {
  if (text.startsWith('"')) return <span className="text-ok-ink">{text}</span>
  if (/^-?\d/.test(text)) return <span className="text-accent">{text}</span>
  if (/^(true|false|null)/.test(text)) return <span className="text-missed">{text}</span>
  return <span className="text-ink-2">{text}</span>
}
