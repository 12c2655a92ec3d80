import { useMemo, useRef } from 'react'
import { CopyAs } from '@/components/copy'
import { Section } from '@/layout/page'
import type { Commands } from '@/lib/quote'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import type { Editor } from './editor'
import { textOf } from './model/document'
import { lineOf, pointerLines } from './model/pointers'

/** The document as JSON. Lines with an error of the API are marked. */
export function JsonPane({
  editor,
  commands,
  noun = 'job',
}: {
  editor: Editor
  commands: () => Commands
  /** The noun for the document, such as `calendar`. */
  noun?: string
}) {
  const gutter = useRef<HTMLDivElement>(null)
  const lines = editor.text.split('\n').length
  const marks = useMemo(() => {
    const found = new Map<number, string>()
    if (editor.broken !== null) {
      if (editor.broken.line !== null) found.set(editor.broken.line, editor.broken.error)
      return found
    }
    if (editor.errors.length === 0) return found
    const known = pointerLines(editor.text)
    for (const error of editor.errors) {
      const line = lineOf(known, error.pointer)
      if (line !== null) found.set(line, error.detail)
    }
    return found
  }, [editor.text, editor.broken, editor.errors])
  const format = () => editor.setText(textOf(editor.document))
  return (
    <Section
      title="JSON"
      className="flex min-h-96 flex-col overflow-clip xl:max-h-[calc(100vh-7.5rem)]"
      aside={
        <>
          <Button small look="quiet" disabled={editor.broken !== null} onClick={format}>
            Format
          </Button>
          <CopyAs commands={commands} />
        </>
      }
    >
      <div className="flex min-h-0 flex-1 bg-sunken font-mono text-xs leading-5">
        <div
          ref={gutter}
          aria-hidden="true"
          className="select-none overflow-hidden border-r py-2 text-right text-ink-3"
        >
          {Array.from({ length: lines }, (_, at) => (
            <div
              key={at}
              title={marks.get(at + 1)}
              className={cx('h-5 px-2', marks.has(at + 1) && 'bg-bad-soft font-semibold text-bad')}
            >
              {at + 1}
            </div>
          ))}
        </div>
        <textarea
          aria-label={`The ${noun} as JSON`}
          aria-invalid={editor.broken !== null || marks.size > 0}
          spellCheck={false}
          wrap="off"
          rows={Math.max(16, Math.min(lines, 34))}
          value={editor.text}
          onChange={event => editor.setText(event.target.value)}
          onScroll={event => {
            if (gutter.current !== null) gutter.current.scrollTop = event.currentTarget.scrollTop
          }}
          className="min-w-0 flex-1 resize-none bg-transparent px-3 py-2 text-ink leading-5 outline-offset-[-2px]"
        />
      </div>
      <div
        role="status"
        className={cx(
          'min-h-8 border-t px-3 py-1.5 text-xs',
          marks.size > 0 || editor.broken ? 'text-bad' : 'text-ink-3',
        )}
      >
        {editor.broken !== null
          ? `${editor.broken.line === null ? '' : `Line ${editor.broken.line}: `}${editor.broken.error}`
          : marks.size > 0
            ? [...marks].map(([line, text]) => `Line ${line}: ${text}`).join(' ')
            : `The form and this text are the same ${noun}: change either one.`}
      </div>
    </Section>
  )
}
