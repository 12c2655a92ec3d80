import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, type PointerEvent, useCallback, useEffect, useRef, useState } from 'react'
import { useWidth } from '@/components/data-table'
import { serverNow } from '@/lib/clock'
import { zone } from '@/lib/settings'
import { MARKS } from '@/lib/states'
import { clockTime, duration, plural } from '@/lib/time'
import { useWindowHeight } from '@/lib/window-height'
import { AXIS_HEIGHT, drawAxis, drawLanes, readPalette, timeOf, type View } from './draw'
import { LaneLabels } from './labels'
import { type Bar, type Bucket, barAt, type Lane, type Model, prune } from './model'

/** Minimum time between two frames, however many events arrive. */
const MIN_FRAME_DISTANCE_MS = 60

const MIN_LANE_HEIGHT = 28
const MAX_LANE_HEIGHT = 48
/** Height of the page without the lanes. */
const OTHER_PX = 600

export type Redraw = { request: () => void }
type Pointed = { lane: number; bar: Bar | null; bucket: Bucket | null; fire: number | null; x: number }

/** Draws the lanes, and moves them as time passes. */
export function NowLineCanvas({ model, span, redraw }: { model: Model; span: number; redraw: { current: Redraw } }) {
  const box = useRef<HTMLDivElement>(null)
  const axis = useRef<HTMLCanvasElement>(null)
  const lanes = useRef<HTMLCanvasElement>(null)
  const boxWidth = useWidth(box)
  const isNarrow = boxWidth > 0 && boxWidth < 640
  const labelWidth = isNarrow ? 0 : boxWidth < 760 ? 150 : boxWidth < 1100 ? 208 : 256
  const width = Math.max(0, boxWidth - labelWidth)
  const windowHeight = useWindowHeight()
  const laneHeight = isNarrow ? 44 : roomyLane(windowHeight, model.lanes.length)
  const labelHeight = isNarrow ? 16 : 0
  const height = model.lanes.length * laneHeight
  const [pointed, setPointed] = useState<Pointed | null>(null)
  const shown = useRef<Pointed | null>(null)
  const chosenZone = zone.use()
  const navigate = useNavigate()

  const viewNow = useCallback(
    (): View => ({
      width,
      laneHeight,
      labelHeight,
      firstLane: 0,
      lastLane: model.lanes.length - 1,
      now: serverNow(),
      span,
      palette: readPalette(),
      zone: chosenZone,
      marked: shown.current === null ? null : { lane: shown.current.lane, runId: shown.current.bar?.runId ?? null },
    }),
    [width, laneHeight, labelHeight, model, span, chosenZone],
  )

  useEffect(() => {
    const axisContext = sized(axis.current, width, AXIS_HEIGHT)
    const laneContext = sized(lanes.current, width, height)
    const host = box.current
    if (axisContext === null || laneContext === null || host === null) return
    let frame = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    let drawnAt = 0
    let inView = true
    let palette = readPalette()
    // The time in which the picture moves by half a pixel, but at most one second, because the clock above the line
    // shows seconds.
    const step = Math.min(1000, Math.max(MIN_FRAME_DISTANCE_MS, span / Math.max(1, width)))

    const draw = () => {
      frame = 0
      drawnAt = performance.now()
      const view = { ...viewNow(), palette }
      prune(model, view.now - span)
      drawAxis(axisContext, view)
      drawLanes(laneContext, model, view)
      plan(step)
    }
    const plan = (delay: number) => {
      clearTimeout(timer)
      if (!inView || document.hidden) return
      timer = setTimeout(() => {
        if (frame === 0) frame = requestAnimationFrame(draw)
      }, delay)
    }
    const request = () => plan(Math.max(0, MIN_FRAME_DISTANCE_MS - (performance.now() - drawnAt)))
    redraw.current.request = request

    const themes = new MutationObserver(() => {
      palette = readPalette()
      request()
    })
    themes.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    const sight = new IntersectionObserver(([entry]) => {
      inView = entry?.isIntersecting ?? true
      request()
    })
    sight.observe(host)
    document.addEventListener('visibilitychange', request)
    draw()
    return () => {
      clearTimeout(timer)
      cancelAnimationFrame(frame)
      themes.disconnect()
      sight.disconnect()
      document.removeEventListener('visibilitychange', request)
      redraw.current.request = () => {}
    }
  }, [model, width, height, span, viewNow, redraw])

  const point = (next: Pointed | null) => {
    shown.current = next
    setPointed(next)
    redraw.current.request()
  }
  const onPointerMove = (event: PointerEvent<HTMLCanvasElement>) => {
    const area = event.currentTarget.getBoundingClientRect()
    point(find(model, viewNow(), event.clientX - area.left, event.clientY - area.top))
  }
  const open = (at: Pointed | null) => {
    const lane = at === null ? undefined : model.lanes[at.lane]
    if (at?.bar !== null && at?.bar !== undefined)
      void navigate({ to: '/runs/$runId', params: { runId: at.bar.runId } })
    else if (lane !== undefined && at?.bucket !== null && model.by === 'job')
      void navigate({ to: '/runs', search: { jobId: lane.id } })
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') open(shown.current)
    else if (event.key === 'Escape') point(null)
    else {
      const next = step(model, viewNow(), shown.current, event.key)
      if (next === null) return
      point(next)
    }
    event.preventDefault()
  }

  return (
    <div ref={box} className="relative">
      <div className="sticky top-0 z-10 border-b bg-surface" style={{ height: AXIS_HEIGHT + 1 }}>
        <canvas ref={axis} tabIndex={-1} className="absolute top-0 right-0" />
      </div>
      <div className="relative" style={{ height }}>
        <LaneLabels model={model} laneHeight={laneHeight} width={labelWidth} />
        <canvas
          ref={lanes}
          tabIndex={0}
          role="img"
          aria-label={`Runs of ${plural(model.lanes.length, model.by)} around now. Arrow keys move from run to run, Enter opens one. The table shows the same as text.`}
          onPointerMove={onPointerMove}
          onPointerLeave={() => point(null)}
          onClick={() => open(shown.current)}
          onKeyDown={onKeyDown}
          onBlur={() => point(null)}
          className={`absolute top-0 right-0 touch-pan-y outline-offset-[-2px] ${pointed?.bar || pointed?.bucket ? 'cursor-pointer' : ''}`}
        />
        {pointed !== null && (
          <Tip pointed={pointed} model={model} laneHeight={laneHeight} left={labelWidth} width={width} />
        )}
      </div>
      <p aria-live="polite" className="sr-only">
        {pointed === null ? '' : describe(pointed, model.lanes[pointed.lane]).join(', ')}
      </p>
    </div>
  )
}

/** Returns the height of a lane: a tall window with few lanes has higher ones. */
function roomyLane(windowHeight: number, lanes: number): number {
  return Math.min(MAX_LANE_HEIGHT, Math.max(MIN_LANE_HEIGHT, Math.floor((windowHeight - OTHER_PX) / lanes)))
}

/** Sets the size of a canvas in device pixels and returns its context. */
function sized(canvas: HTMLCanvasElement | null, width: number, height: number): CanvasRenderingContext2D | null {
  if (canvas === null || width <= 0 || height <= 0) return null
  const ratio = window.devicePixelRatio || 1
  canvas.width = Math.round(width * ratio)
  canvas.height = Math.round(height * ratio)
  canvas.style.width = `${width}px`
  canvas.style.height = `${height}px`
  const context = canvas.getContext('2d')
  context?.setTransform(ratio, 0, 0, ratio, 0, 0)
  return context
}

function find(model: Model, view: View, x: number, y: number): Pointed | null {
  const index = Math.floor(y / view.laneHeight)
  const lane = model.lanes[index]
  if (lane === undefined) return null
  const at = timeOf(x, view)
  const near = (6 / (view.width / 2)) * view.span
  const bar = at <= view.now + near ? barAt(lane, at, view.now, near) : null
  const bucket =
    bar === null ? (lane.buckets?.find(item => item.from <= at && at < item.to && item.total > 0) ?? null) : null
  const fire = bar === null && at > view.now ? closest(lane.fires, at, near) : null
  return { lane: index, bar, bucket, fire, x }
}

function closest(times: readonly number[], at: number, within: number): number | null {
  let best: number | null = null
  for (const time of times)
    if (Math.abs(time - at) <= within && (best === null || Math.abs(time - at) < Math.abs(best - at))) best = time
  return best
}

/** Returns the bar that an arrow key selects: the next one in the lane, or one in the next lane. */
function step(model: Model, view: View, from: Pointed | null, key: string): Pointed | null {
  if (!['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'].includes(key) || model.lanes.length === 0) return null
  const vertical = key === 'ArrowUp' ? -1 : key === 'ArrowDown' ? 1 : 0
  const index = Math.min(model.lanes.length - 1, Math.max(0, (from?.lane ?? 0) + (from === null ? 0 : vertical)))
  const lane = model.lanes[index]
  if (lane === undefined) return null
  const bars = lane.bars
  let bar: Bar | null = bars.at(-1) ?? null
  if (from?.bar && vertical !== 0) bar = bars.findLast(item => item.fire <= (from.bar?.fire ?? 0)) ?? bar
  if (from?.bar && vertical === 0) {
    const at = bars.findIndex(item => item.runId === from.bar?.runId) + (key === 'ArrowLeft' ? -1 : 1)
    bar = bars[Math.min(bars.length - 1, Math.max(0, at))] ?? null
  }
  const x =
    bar === null
      ? view.width / 2
      : view.width / 2 + (((bar.start ?? bar.fire) - view.now) / view.span) * (view.width / 2)
  return { lane: index, bar, bucket: null, fire: null, x }
}

/** Returns the lines of text that describe a pointed bar, bucket or fire. */
function describe(pointed: Pointed, lane: Lane | undefined): string[] {
  if (lane === undefined) return []
  const { bar, bucket, fire } = pointed
  const chosen = zone.get()
  if (bar !== null) {
    const due =
      bar.until === null
        ? clockTime(bar.fire, chosen)
        : `${clockTime(bar.fire, chosen)} to ${clockTime(bar.until, chosen)}, ${plural(bar.fires, 'fire')}`
    const lines = [lane.name, `${MARKS[bar.mark].label}: ${bar.status}, due ${due}`]
    if (bar.lateMs !== null) lines.push(`started ${duration(bar.lateMs)} after its time`)
    if (bar.start !== null)
      lines.push(
        bar.end === null ? `for ${duration(serverNow() - bar.start)}` : `took ${duration(bar.end - bar.start)}`,
      )
    return lines
  }
  if (bucket !== null) {
    const counts = Object.entries(bucket.counts).filter(([, number]) => number > 0)
    return [
      lane.name,
      `${clockTime(bucket.from, chosen)} to ${clockTime(bucket.to, chosen)}`,
      ...counts.map(
        ([mark, number]) =>
          `${MARKS[mark as keyof typeof MARKS].label.toLowerCase()}: ${number.toLocaleString('en-US')}`,
      ),
    ]
  }
  if (fire !== null)
    return [
      lane.name,
      `fires ${clockTime(fire, chosen)}, in ${duration(Math.max(0, Math.round((fire - serverNow()) / 1000) * 1000))}`,
    ]
  return []
}

function Tip({
  pointed,
  model,
  laneHeight,
  left,
  width,
}: {
  pointed: Pointed
  model: Model
  laneHeight: number
  left: number
  width: number
}) {
  const lines = describe(pointed, model.lanes[pointed.lane])
  if (lines.length === 0) return null
  const x = Math.min(Math.max(pointed.x, 8), width - 8)
  const atRight = x > width - 240
  const below = pointed.lane < 3
  return (
    <div
      aria-hidden="true"
      style={{
        ...(atRight ? { right: width - x + 8 } : { left: left + x + 8 }),
        top: (pointed.lane + (below ? 1 : 0)) * laneHeight + (below ? 4 : -4),
        transform: below ? 'none' : 'translateY(-100%)',
      }}
      className="bidi-plain pointer-events-none absolute z-20 grid max-w-64 rounded-md bg-ink px-2 py-1 text-bg text-xs shadow-pop"
    >
      {lines.map((line, at) => (
        <span key={line} className={at === 0 ? 'truncate font-medium' : 'opacity-85'}>
          {line}
        </span>
      ))}
    </div>
  )
}
