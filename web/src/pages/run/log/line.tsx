import { memo, type ReactNode } from 'react'
import { zone } from '@/lib/settings'
import { instant, partsOf } from '@/lib/time'
import { cx } from '@/ui/cx'
import { type AnsiSpan, afterReturn, parseAnsi, visible } from './ansi'
import { ATTEMPT_STREAM, type LogLine } from './buffer'
import { type ColorLevel, cssOf } from './colors'
import { occurrences } from './search'

/** Maximum number of characters of a line that are shown. The search and the download use the whole line. */
const MAX_DRAWN_LENGTH = 4000

export type LineLook = { wrap: boolean; times: boolean; colors: ColorLevel; query: string; exact: boolean }

type Props = { number: number; digits: number; current: boolean } & LogLine & LineLook

/** One line: its number, optionally its time, and its text with colours and highlighted matches. */
export const LineView = memo(function LineView({
  number,
  digits,
  current,
  text,
  stream,
  at,
  wrap,
  times,
  colors,
  query,
  exact,
}: Props) {
  if (stream === ATTEMPT_STREAM)
    return (
      <div className="flex h-5 items-center gap-3 px-2 font-sans text-2xs text-ink-3">
        <span className="sticky left-2">{text}</span>
        <span className="h-px flex-1 bg-line-strong" />
      </div>
    )
  return (
    <div className={cx('flex min-h-5 leading-5', current && 'bg-accent-soft', !wrap && 'h-5')}>
      <span
        style={{ width: `${digits + 2}ch` }}
        className={cx(
          'sticky left-0 shrink-0 select-none border-l-2 bg-sunken pr-2 text-right text-ink-3',
          stream === 'stderr' ? 'border-late' : 'border-transparent',
          current && 'bg-accent-soft',
        )}
      >
        {number}
      </span>
      {times && <LineTime at={at} />}
      <span
        className={cx(
          'bidi-plain pr-3 pl-1',
          wrap ? 'min-w-0 flex-1 whitespace-pre-wrap [overflow-wrap:anywhere]' : 'whitespace-pre',
          stream === 'system' && 'text-ink-3 italic',
        )}
      >
        <LineText text={text} colors={colors} query={query} exact={exact} />
      </span>
    </div>
  )
})

function LineTime({ at }: { at: string }) {
  const shown = zone.use()
  const value = instant(at)
  const p = value === null ? null : partsOf(value, shown)
  return (
    <span className="w-[9ch] shrink-0 select-none text-ink-3">
      {p === null ? '' : `${p.hour}:${p.minute}:${p.second}`}
    </span>
  )
}

function LineText({ text, colors, query, exact }: Pick<Props, 'text' | 'colors' | 'query' | 'exact'>) {
  const shown = afterReturn(text)
  const spans = parseAnsi(shown.length > MAX_DRAWN_LENGTH ? shown.slice(0, MAX_DRAWN_LENGTH) : shown)
  return (
    <>
      {query === ''
        ? spans.map((span, index) => (
            <span key={index} style={cssOf(span.style, colors)}>
              {visible(span.text)}
            </span>
          ))
        : marked(spans, colors, query, exact)}
      {shown.length > MAX_DRAWN_LENGTH && (
        <span className="select-none font-sans text-ink-3">
          {' '}
          … {(shown.length - MAX_DRAWN_LENGTH).toLocaleString('en-US')} more characters
        </span>
      )}
    </>
  )
}

/** Splits spans where a match of the search begins or ends. A match may extend over several spans. */
function marked(spans: readonly AnsiSpan[], colors: ColorLevel, query: string, exact: boolean): ReactNode[] {
  const matches = occurrences(spans.map(span => span.text).join(''), query, exact)
  const nodes: ReactNode[] = []
  let at = 0
  for (const span of spans) {
    const end = at + span.text.length
    let from = at
    for (const [start, stop] of matches) {
      if (stop <= from || start >= end) continue
      if (start > from) nodes.push(piece(nodes.length, span.text.slice(from - at, start - at), span, colors, false))
      nodes.push(
        piece(nodes.length, span.text.slice(Math.max(start, from) - at, Math.min(stop, end) - at), span, colors, true),
      )
      from = Math.min(stop, end)
    }
    if (from < end) nodes.push(piece(nodes.length, span.text.slice(from - at), span, colors, false))
    at = end
  }
  return nodes
}

function piece(key: number, text: string, span: AnsiSpan, colors: ColorLevel, isMatch: boolean): ReactNode {
  const style = cssOf(span.style, colors)
  return isMatch ? (
    <mark key={key} style={style} className="rounded-[2px] bg-late-soft text-ink outline outline-late">
      {visible(text)}
    </mark>
  ) : (
    <span key={key} style={style}>
      {visible(text)}
    </span>
  )
}
