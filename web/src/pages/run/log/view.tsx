import { type Ref, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react'
import { cx } from '@/ui/cx'
import type { LogBuffer } from './buffer'
import { type LineLook, LineView } from './line'
import { LINE_HEIGHT, scrollFor, topLine, viewportOf } from './viewport'

export type LogHandle = { showLine: (line: number) => void; focus: () => void }

const OVERSCAN = 6
/** Maximum distance from the end, in pixels, at which the view counts as scrolled to the end. */
const END_DISTANCE = 24

/**
 * Shows the lines in view of a log with any number of lines. The scroll bar counts a wrapped line as one line, but its
 * full height is scrolled. In the mode `follow`, the view stays at the end.
 */
export function LogLines({
  log,
  version,
  look,
  follow,
  onFollow,
  current,
  ref,
  className,
}: {
  log: LogBuffer
  /** Increases with each change of the log. */
  version: number
  look: LineLook
  follow: boolean
  onFollow: (follow: boolean) => void
  /** The line of the current match; null without a match. */
  current: number | null
  ref?: Ref<LogHandle>
  className?: string
}) {
  const scroller = useRef<HTMLElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const [scrollTop, setScrollTop] = useState(0)
  const [viewHeight, setViewHeight] = useState(400)

  useLayoutEffect(() => {
    const element = scroller.current
    if (element === null) return
    const observer = new ResizeObserver(() => setViewHeight(element.clientHeight))
    observer.observe(element)
    return () => observer.disconnect()
  }, [])

  const count = log.end - log.first
  const viewport = viewportOf(count, viewHeight)
  const rows = Math.ceil(viewHeight / LINE_HEIGHT)
  const max = Math.max(0, viewport.height - viewHeight)
  const isAtEnd = follow || scrollTop >= max - 1
  const top = isAtEnd ? Math.max(0, count - viewHeight / LINE_HEIGHT) : Math.min(topLine(scrollTop, viewport), count)
  const first = Math.floor(top)
  // The heights of wrapped lines above the view are unknown, so no line above the first visible one is rendered.
  const from = look.wrap ? first : Math.max(0, first - OVERSCAN)
  const to = Math.min(count, first + rows + OVERSCAN)

  // The position of the lines depends on their heights, which are known after the layout.
  useLayoutEffect(() => {
    const element = scroller.current
    const lines = content.current
    if (element === null || lines === null || version < 0) return
    if (follow && element.scrollTop < max - 1) element.scrollTop = max
    const offset = look.wrap
      ? (top - first) * (lines.firstElementChild?.getBoundingClientRect().height ?? LINE_HEIGHT)
      : (top - from) * LINE_HEIGHT
    const y = isAtEnd ? Math.max(0, viewport.height - lines.offsetHeight) : Math.max(0, element.scrollTop - offset)
    lines.style.transform = `translateY(${count === 0 ? 0 : y}px)`
  })

  useImperativeHandle(ref, () => ({
    showLine: line => {
      onFollow(false)
      scroller.current?.scrollTo({ top: scrollFor(line - log.first, viewport, viewHeight) })
    },
    focus: () => scroller.current?.focus(),
  }))

  const numbers = Array.from({ length: Math.max(0, to - from) }, (_, i) => log.first + from + i)
  const digits = String(log.end).length
  return (
    <section
      ref={scroller}
      aria-label="Output of the run"
      tabIndex={0}
      onScroll={event => {
        const element = event.currentTarget
        setScrollTop(element.scrollTop)
        const near = element.scrollHeight - element.scrollTop - element.clientHeight <= END_DISTANCE
        if (near !== follow) onFollow(near)
      }}
      className={cx('relative overflow-auto overscroll-contain bg-sunken font-mono text-xs', className)}
    >
      <div style={{ height: Math.max(viewport.height, 1) }} className="relative">
        <div ref={content} className={cx('absolute top-0 left-0', look.wrap ? 'w-full' : 'w-max min-w-full')}>
          {numbers.map(line => (
            <LineView
              key={line}
              {...look}
              {...log.line(line)}
              number={line + 1}
              digits={digits}
              current={line === current}
            />
          ))}
        </div>
      </div>
    </section>
  )
}
