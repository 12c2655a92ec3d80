import { MARK_NAMES, MARKS, type Mark } from '@/lib/states'
import { partsOf, type Zone } from '@/lib/time'
import type { Bar, Bucket, Lane, Model } from './model'

/** Draws the now line on canvases. Marks differ in shape as well as in colour. */

export type Palette = Record<
  Mark | 'accent' | 'ink' | 'ink2' | 'ink3' | 'line' | 'surface' | 'sunken' | 'hover',
  string
>

export type View = {
  width: number
  laneHeight: number
  /** The height that the name of a lane takes above its bars. */
  labelHeight: number
  /** The indexes of the first and the last lane in view. */
  firstLane: number
  lastLane: number
  now: number
  /** Milliseconds from the line in the middle to each edge. */
  span: number
  palette: Palette
  zone: Zone
  marked: { lane: number; runId: string | null } | null
}

export const AXIS_HEIGHT = 30
const MIN_BAR_WIDTH = 3
const MIN_TICK_DISTANCE = 3

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement)
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim()
  const marks = Object.fromEntries(MARK_NAMES.map(mark => [mark, token(MARKS[mark].tone)])) as Record<Mark, string>
  return {
    ...marks,
    accent: token('accent'),
    ink: token('ink'),
    ink2: token('ink-2'),
    ink3: token('ink-3'),
    line: token('line'),
    surface: token('surface'),
    sunken: token('sunken'),
    hover: token('hover'),
  }
}

export function xOf(at: number, view: { width: number; now: number; span: number }): number {
  return view.width / 2 + ((at - view.now) / view.span) * (view.width / 2)
}

export function timeOf(x: number, view: { width: number; now: number; span: number }): number {
  return view.now + ((x - view.width / 2) / (view.width / 2)) * view.span
}

const STEPS_S = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400]

/** Returns the instants that get a label: as many as fit, at round times of the zone. */
export function axisTicks(view: { width: number; now: number; span: number }, offset: number): number[] {
  const perLabel = 88
  const wanted = (view.span * 2) / Math.max(1, view.width / perLabel) / 1000
  const step = (STEPS_S.find(seconds => seconds >= wanted) ?? 86_400) * 1000
  const first = Math.ceil((view.now - view.span + offset) / step) * step - offset
  const ticks: number[] = []
  for (let at = first; at <= view.now + view.span; at += step) ticks.push(at)
  return ticks
}

/** Returns the offset of a zone from UTC at an instant, in milliseconds. */
export function zoneOffset(at: number, zone: Zone): number {
  const p = partsOf(at, zone)
  const local = Date.UTC(
    Number(p.year),
    Number(p.month) - 1,
    Number(p.day),
    Number(p.hour),
    Number(p.minute),
    Number(p.second),
  )
  return local - Math.floor(at / 1000) * 1000
}

export function drawAxis(ctx: CanvasRenderingContext2D, view: View): void {
  const { width, palette } = view
  ctx.clearRect(0, 0, width, AXIS_HEIGHT)
  ctx.font = `11px ${getComputedStyle(document.body).fontFamily}`
  ctx.textBaseline = 'middle'
  ctx.textAlign = 'center'
  ctx.fillStyle = palette.ink3
  const middle = width / 2
  for (const at of axisTicks(view, zoneOffset(view.now, view.zone))) {
    const x = xOf(at, view)
    if (Math.abs(x - middle) < 52 || x < 20 || x > width - 20) continue
    const p = partsOf(at, view.zone)
    ctx.fillText(view.span < 20 * 60_000 ? `${p.hour}:${p.minute}:${p.second}` : `${p.hour}:${p.minute}`, x, 12)
  }
  const p = partsOf(view.now, view.zone)
  ctx.font = `600 12px ${getComputedStyle(document.body).fontFamily}`
  ctx.fillStyle = palette.ink
  ctx.fillText(`${p.hour}:${p.minute}:${p.second}`, middle, 10)
  ctx.fillStyle = palette.accent
  ctx.fillRect(middle - 0.75, 18, 1.5, AXIS_HEIGHT - 18)
  ctx.beginPath()
  ctx.arc(middle, 23, 4.5, 0, Math.PI * 2)
  ctx.fill()
}

export function drawLanes(ctx: CanvasRenderingContext2D, model: Model, view: View): void {
  const { width, laneHeight, palette, now } = view
  const top = view.firstLane * laneHeight
  const bottom = (view.lastLane + 1) * laneHeight
  const middle = width / 2
  ctx.clearRect(0, top, width, bottom - top)
  ctx.fillStyle = palette.sunken
  ctx.fillRect(middle, top, width - middle, bottom - top)
  if (view.marked !== null) {
    ctx.fillStyle = palette.hover
    ctx.fillRect(0, view.marked.lane * laneHeight, width, laneHeight)
  }
  ctx.fillStyle = palette.line
  for (const at of axisTicks(view, zoneOffset(now, view.zone)))
    ctx.fillRect(Math.round(xOf(at, view)), top, 1, bottom - top)
  for (let at = view.firstLane; at <= view.lastLane; at++) ctx.fillRect(0, (at + 1) * laneHeight - 1, width, 1)

  for (let at = view.firstLane; at <= view.lastLane; at++) {
    const lane = model.lanes[at]
    if (lane === undefined) break
    const y = at * laneHeight + view.labelHeight
    if (lane.buckets !== null) drawBuckets(ctx, lane.buckets, y, view)
    drawBars(ctx, lane, at, view)
    drawFires(ctx, lane, y, view)
  }
  ctx.fillStyle = palette.accent
  ctx.fillRect(middle - 0.75, top, 1.5, bottom - top)
  for (let at = view.firstLane; at <= view.lastLane; at++) {
    if (!model.lanes[at]?.bars.some(bar => bar.mark === 'running' && bar.start !== null)) continue
    ctx.beginPath()
    ctx.arc(middle, at * laneHeight + view.labelHeight + room(view) / 2, 3, 0, Math.PI * 2)
    ctx.fill()
  }
}

function drawBars(ctx: CanvasRenderingContext2D, lane: Lane, index: number, view: View): void {
  const y = index * view.laneHeight + view.labelHeight
  const groups = new Map<Mark, Bar[]>()
  for (const bar of lane.bars) {
    if ((bar.until ?? bar.end ?? view.now) < view.now - view.span) continue
    const group = groups.get(bar.mark)
    if (group === undefined) groups.set(bar.mark, [bar])
    else group.push(bar)
  }
  // Failed and missed runs are drawn last, so that no other mark covers them.
  for (const mark of DRAW_ORDER) {
    const bars = groups.get(mark)
    if (bars !== undefined) DRAW[mark](ctx, bars, y, view)
  }
  if (view.marked?.lane === index && view.marked.runId !== null) {
    const bar = lane.byRun.get(view.marked.runId)
    if (bar !== undefined) outline(ctx, bar, y, view)
  }
}

const DRAW_ORDER: readonly Mark[] = ['skipped', 'waiting', 'on_time', 'running', 'late', 'missed', 'failed']

type Draw = (ctx: CanvasRenderingContext2D, bars: readonly Bar[], y: number, view: View) => void

function extent(bar: Bar, view: View): [number, number] {
  const from = xOf(bar.start ?? bar.fire, view)
  const to = xOf(bar.end ?? (bar.start === null ? bar.fire : view.now), view)
  const left = Math.max(-10, from)
  // One pixel stays free between adjacent bars.
  return [left, Math.max(MIN_BAR_WIDTH, Math.min(to, view.width / 2) - left - (bar.end === null ? 0 : 1))]
}

function box(ctx: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  if (width < 5) ctx.rect(x, y, width, height)
  else ctx.roundRect(x, y, width, height, 2)
}

/** The height that is available for bars. */
const room = (view: View) => view.laneHeight - view.labelHeight
const inset = (view: View) => Math.round(room(view) * 0.25)

const filled =
  (mark: Mark, trim: number): Draw =>
  (ctx, bars, y, view) => {
    const pad = Math.max(2, inset(view) - trim)
    ctx.fillStyle = view.palette[mark]
    ctx.beginPath()
    for (const bar of bars) {
      const [x, width] = extent(bar, view)
      box(ctx, x, y + pad, width, room(view) - 2 * pad - 1)
    }
    ctx.fill()
  }

/** Draws late runs: the bar, and a line back to the time at which the run was due. */
const late: Draw = (ctx, bars, y, view) => {
  const middle = y + room(view) / 2
  ctx.fillStyle = view.palette.late
  for (const bar of bars) {
    const from = xOf(bar.fire, view)
    const [x] = extent(bar, view)
    if (x - from < 2) continue
    ctx.fillRect(from, middle - 1, x - from, 1.5)
    ctx.fillRect(from, middle - 4, 1.5, 7.5)
  }
  filled('late', 0)(ctx, bars, y, view)
}

/** Draws failed runs: higher than the others, with a cross if there is space. */
const failed: Draw = (ctx, bars, y, view) => {
  filled('failed', 4)(ctx, bars, y, view)
  ctx.strokeStyle = view.palette.surface
  ctx.lineWidth = 1.5
  const middle = y + room(view) / 2 - 0.5
  for (const bar of bars) {
    const [x, width] = extent(bar, view)
    if (width < 12) continue
    const center = x + Math.min(width / 2, 9)
    ctx.beginPath()
    ctx.moveTo(center - 3, middle - 3)
    ctx.lineTo(center + 3, middle + 3)
    ctx.moveTo(center + 3, middle - 3)
    ctx.lineTo(center - 3, middle + 3)
    ctx.stroke()
  }
}

/** Draws skipped fires: an empty box over all consecutive fires that were skipped. */
const skipped: Draw = (ctx, bars, y, view) => {
  const pad = inset(view) + 1
  ctx.strokeStyle = view.palette.skipped
  ctx.lineWidth = 1
  ctx.beginPath()
  for (const bar of bars) {
    const x = xOf(bar.fire, view) - 2
    ctx.rect(x, y + pad + 0.5, Math.max(5, xOf(bar.until ?? bar.fire, view) + 3 - x), room(view) - 2 * pad - 2)
  }
  ctx.stroke()
}

/** Draws missed fires: an empty diamond, stretched over all consecutive fires that were missed. */
const missed: Draw = (ctx, bars, y, view) => {
  const middle = y + room(view) / 2
  ctx.strokeStyle = view.palette.missed
  ctx.lineWidth = 1.75
  ctx.beginPath()
  for (const bar of bars) {
    const x = xOf(bar.fire, view)
    const end = Math.max(x, xOf(bar.until ?? bar.fire, view))
    ctx.moveTo(x, middle - 6)
    ctx.lineTo(end, middle - 6)
    ctx.lineTo(end + 5, middle)
    ctx.lineTo(end, middle + 6)
    ctx.lineTo(x, middle + 6)
    ctx.lineTo(x - 5, middle)
    ctx.closePath()
  }
  ctx.stroke()
}

/** Draws waiting runs: a ring at the fire time. Rings that would touch are drawn as a line. */
const waiting: Draw = (ctx, bars, y, view) => {
  const middle = y + room(view) / 2
  ctx.strokeStyle = view.palette.waiting
  ctx.lineWidth = 1.5
  ctx.beginPath()
  let before = Number.NEGATIVE_INFINITY
  for (const bar of bars) {
    if (bar.fire > view.now + 1000) continue
    const x = xOf(bar.fire, view)
    if (x - before < 9) {
      ctx.moveTo(before, middle)
      ctx.lineTo(x, middle)
    } else {
      ctx.moveTo(x + 3.5, middle)
      ctx.arc(x, middle, 3.5, 0, Math.PI * 2)
    }
    before = x
  }
  ctx.stroke()
}

const DRAW: Record<Mark, Draw> = {
  on_time: filled('on_time', 0),
  late,
  failed,
  skipped,
  missed,
  running: filled('running', -1),
  waiting,
}

function outline(ctx: CanvasRenderingContext2D, bar: Bar, y: number, view: View): void {
  const [x, width] = extent(bar, view)
  ctx.strokeStyle = view.palette.ink
  ctx.lineWidth = 1.5
  ctx.strokeRect(x - 2, y + 2, width + 4, room(view) - 5)
}

const STACK: readonly Mark[] = ['on_time', 'running', 'waiting', 'late', 'skipped', 'missed', 'failed']

/**
 * Draws a lane with many runs: one column per bucket, as high as its number of runs, stacked by mark with failures on
 * top.
 */
function drawBuckets(ctx: CanvasRenderingContext2D, buckets: readonly Bucket[], y: number, view: View): void {
  const most = Math.max(1, ...buckets.map(bucket => bucket.total))
  const top = room(view) - 5
  for (const bucket of buckets) {
    if (bucket.total === 0 || bucket.to < view.now - view.span) continue
    const x = xOf(bucket.from, view)
    const width = Math.max(1.5, Math.min(xOf(bucket.to, view), view.width / 2) - x - 1)
    let bottom = y + room(view) - 2
    const height = Math.max(3, top * Math.sqrt(bucket.total / most))
    for (const mark of STACK) {
      const part = bucket.counts[mark]
      if (part === 0) continue
      // The parts of failed and missed runs have a minimum height, so that one failure among thousands of runs is
      // visible.
      const size =
        mark === 'failed' || mark === 'missed'
          ? Math.max(3, (height * part) / bucket.total)
          : (height * part) / bucket.total
      ctx.fillStyle = view.palette[mark]
      ctx.fillRect(x, bottom - size, width, size)
      bottom -= size
    }
  }
}

/** Draws coming fires as ticks, with the next one highlighted. Ticks that would touch are drawn as a band. */
function drawFires(ctx: CanvasRenderingContext2D, lane: Lane, y: number, view: View): void {
  const middle = y + room(view) / 2
  const coming = lane.fires.filter(at => at > view.now - 1500 && at <= view.now + view.span)
  let before = Number.NEGATIVE_INFINITY
  ctx.fillStyle = view.palette.ink3
  coming.forEach((at, index) => {
    const x = xOf(at, view)
    const isClose = x - before < MIN_TICK_DISTANCE
    ctx.globalAlpha = isClose ? 0.3 : 0.75
    if (isClose) ctx.fillRect(before, middle - 3, x - before, 5)
    else if (index > 0) ctx.fillRect(x - 0.75, middle - 4.5, 1.5, 8)
    before = x
  })
  if (lane.more && before < view.width) {
    ctx.globalAlpha = 0.12
    ctx.fillRect(before, middle - 3, view.width - before, 5)
  }
  ctx.globalAlpha = 1
  const [next] = coming
  if (next === undefined) return
  ctx.fillStyle = view.palette.accent
  ctx.fillRect(xOf(next, view) - 1, middle - 7, 2, 13)
}
