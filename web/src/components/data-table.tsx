import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, type ReactNode, type Ref, useEffect, useImperativeHandle, useMemo, useRef, useState } from 'react'
import { useShortcuts } from '@/lib/shortcuts'
import { cx } from '@/ui/cx'

export type Column<T> = {
  id: string
  header: ReactNode
  cell: (row: T) => ReactNode
  /** The width as a CSS grid track, such as `minmax(12rem, 2fr)` or `9rem`. */
  width: string
  /** The column is hidden if the table is narrower than this, in pixels. */
  minTable?: number
  align?: 'right'
}

export type TableHandle = { scrollToTop: () => void }

const ROW_HEIGHT = 36
const COMPACT_ROW_HEIGHT = 60
const COMPACT_BELOW = 620

/**
 * A table with any number of rows. The document contains only the rows in view. All rows have the same height, so
 * nothing moves when rows arrive. `j` and `k` select the next and the previous row, Enter opens the selected one. A
 * table narrower than 620 px shows `compact` instead of the columns, in two lines.
 */
export function DataTable<T>({
  rows,
  columns,
  rowKey,
  compact,
  onOpen,
  onEnd,
  label,
  footer,
  total,
  ref,
  onScroll,
  initialScroll = 0,
  rowClass,
  className,
}: {
  rows: readonly T[]
  columns: readonly Column<T>[]
  rowKey: (row: T) => string
  compact: (row: T) => ReactNode
  onOpen?: (row: T) => void
  /** Called when the last rows come into view, to load the next page. */
  onEnd?: () => void
  label: string
  /** The element below the last row, such as "Loading more". */
  footer?: ReactNode
  /** The total number of rows for screen readers, if it is known. */
  total?: number
  ref?: Ref<TableHandle>
  /** Called with the scroll position and the indexes of the first and the last row in view. */
  onScroll?: (top: number, first: number, last: number) => void
  initialScroll?: number
  /** Returns a class that highlights a row. */
  rowClass?: (row: T) => string | undefined
  className?: string
}) {
  const scroller = useRef<HTMLDivElement>(null)
  const width = useWidth(scroller)
  const [marked, setMarked] = useState<number | null>(null)
  const isCompact = width > 0 && width < COMPACT_BELOW
  const shown = useMemo(
    () => columns.filter(column => column.minTable === undefined || width === 0 || width >= column.minTable),
    [columns, width],
  )
  const template = shown.map(column => column.width).join(' ')

  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (isCompact ? COMPACT_ROW_HEIGHT : ROW_HEIGHT),
    overscan: 6,
    useFlushSync: false,
    initialOffset: initialScroll,
  })
  const height = isCompact ? COMPACT_ROW_HEIGHT : ROW_HEIGHT
  const { measure } = virtual
  useEffect(() => {
    if (height > 0) measure()
  }, [height, measure])

  useImperativeHandle(ref, () => ({ scrollToTop: () => scroller.current?.scrollTo({ top: 0 }) }))

  const items = virtual.getVirtualItems()
  const first = items[0]?.index ?? 0
  const last = items.at(-1)?.index ?? -1
  const top = virtual.scrollOffset ?? 0
  useEffect(() => {
    onScroll?.(top, first, last)
  }, [onScroll, top, first, last])
  const isAtEnd = rows.length > 0 && last >= rows.length - 20
  useEffect(() => {
    if (isAtEnd) onEnd?.()
  }, [isAtEnd, onEnd, rows.length])

  const move = (step: number) => {
    if (rows.length === 0) return
    const next = Math.min(rows.length - 1, Math.max(0, (marked ?? -1 - Math.min(step, 0)) + step))
    setMarked(next)
    virtual.scrollToIndex(next)
  }
  const openMarked = () => {
    const row = marked === null ? undefined : rows[marked]
    if (row !== undefined) onOpen?.(row)
  }
  useShortcuts(`${label}: list`, [
    { keys: 'j', label: 'Next row', run: () => move(1) },
    { keys: 'k', label: 'Previous row', run: () => move(-1) },
    ...(onOpen === undefined ? [] : [{ keys: 'Enter', label: 'Open the row', run: openMarked }]),
  ])

  return (
    <div
      ref={scroller}
      role="table"
      aria-label={label}
      aria-rowcount={(total ?? rows.length) + 1}
      tabIndex={0}
      className={cx('print-flow relative min-h-0 flex-1 overflow-auto outline-offset-[-2px]', className)}
    >
      <div role="rowgroup" className={cx('sticky top-0 z-10 border-b bg-surface', isCompact && 'sr-only')}>
        <div
          role="row"
          aria-rowindex={1}
          style={{ gridTemplateColumns: template }}
          className="grid h-8 items-center gap-x-4 px-4 lg:px-6"
        >
          {shown.map(column => (
            <div
              key={column.id}
              role="columnheader"
              className={cx('label truncate', column.align === 'right' && 'text-right')}
            >
              {column.header}
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ height: virtual.getTotalSize() }} className="relative">
        {items.map(item => {
          const row = rows[item.index]
          if (row === undefined) return null
          return (
            <Row
              key={rowKey(row)}
              row={row}
              index={item.index}
              start={item.start}
              size={item.size}
              columns={shown}
              template={template}
              compact={isCompact ? compact : null}
              onOpen={onOpen}
              marked={item.index === marked}
              look={rowClass?.(row)}
            />
          )
        })}
      </div>
      {footer !== undefined && (
        <div role="rowgroup">
          <div role="row">
            <div role="cell" className="flex h-12 items-center justify-center text-ink-3 text-xs">
              {footer}
            </div>
          </div>
        </div>
      )}
    </div>
  )
}

type RowProps<T> = {
  row: T
  index: number
  start: number
  size: number
  columns: readonly Column<T>[]
  template: string
  compact: ((row: T) => ReactNode) | null
  onOpen: ((row: T) => void) | undefined
  marked: boolean
  look: string | undefined
}

function RowView<T>({ row, index, start, size, columns, template, compact, onOpen, marked, look }: RowProps<T>) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-current={marked ? 'true' : undefined}
      onClick={event => {
        if (!isControl(event.target) && !hasSelection()) onOpen?.(row)
      }}
      style={{
        transform: `translateY(${start}px)`,
        height: size,
        ...(compact === null ? { gridTemplateColumns: template } : {}),
      }}
      className={cx(
        'group/row absolute inset-x-0 top-0 border-line border-b px-4 text-sm hover:bg-hover lg:px-6',
        onOpen !== undefined && 'cursor-pointer',
        look,
        marked && 'bg-accent-soft shadow-[inset_2px_0_0_var(--accent)]',
        compact === null ? 'grid items-center gap-x-4' : 'flex flex-col justify-center',
      )}
    >
      {compact !== null ? (
        <div role="cell" className="min-w-0">
          {compact(row)}
        </div>
      ) : (
        columns.map(column => (
          <div key={column.id} role="cell" className={cx('min-w-0 truncate', column.align === 'right' && 'text-right')}>
            {column.cell(row)}
          </div>
        ))
      )}
    </div>
  )
}

/** React renders a row again only if the row, its position or the columns change. */
const Row = memo(RowView) as typeof RowView

function isControl(target: EventTarget): boolean {
  return target instanceof Element && target.closest('a, button, input, label, [role="menuitem"]') !== null
}

function hasSelection(): boolean {
  return (window.getSelection()?.toString() ?? '') !== ''
}

/** Returns the width of an element, and renders again when the width changes. */
export function useWidth(ref: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const element = ref.current
    if (element === null) return
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)))
    observer.observe(element)
    return () => observer.disconnect()
  }, [ref])
  return width
}
