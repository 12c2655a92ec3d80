import type { JobStatus, LaneVerdict, RunStatus, Timeline, TimelineLane, TimelineRun } from '@/api/types'
import { isRunEvent, isRunsChanged, type RunEventData, type RunsChangedData, type TimeballEvent } from '@/events/types'
import { isTerminal, MARK_NAMES, type Mark, markOf } from '@/lib/states'
import { instant } from '@/lib/time'

/** The data of the now line: lanes with past runs and coming fires. Events change it in place. */

export type Bar = {
  runId: string
  fire: number
  start: number | null
  end: number | null
  status: RunStatus
  lateMs: number | null
  mark: Mark
  /** The last fire of this bar, if it stands for several consecutive fires that never ran; `fires` is their number. */
  until: number | null
  fires: number
}

export type Bucket = { from: number; to: number; counts: Record<Mark, number>; total: number }

export type Lane = {
  id: string
  name: string
  status: JobStatus | null
  /** Sorted by fire time. */
  bars: Bar[]
  byRun: Map<string, Bar>
  /** The sums of a lane with many runs, which are shown instead of bars; else null. */
  buckets: Bucket[] | null
  /** The coming fires, in order. */
  fires: number[]
  /** True if more fires follow after the last one. */
  more: boolean
}

export type Model = {
  by: 'job' | 'tag'
  lanes: Lane[]
  byId: Map<string, Lane>
  hiddenLanes: number
  from: number
  to: number
}

/** Maximum number of bars in a lane. With more, the oldest are removed. */
export const MAX_LANE_BARS = 400

export function modelOf(timeline: Timeline): Model {
  const lanes = timeline.lanes.map(laneOf)
  return {
    by: timeline.by,
    lanes,
    byId: new Map(lanes.map(lane => [lane.id, lane])),
    hiddenLanes: timeline.hiddenLanes,
    from: instant(timeline.from) ?? 0,
    to: instant(timeline.to) ?? 0,
  }
}

function laneOf(lane: TimelineLane): Lane {
  const bars = lane.runs.map(barOf).sort((one, other) => one.fire - other.fire)
  return {
    id: lane.id,
    name: lane.name,
    status: lane.status,
    bars,
    byRun: new Map(bars.map(bar => [bar.runId, bar])),
    buckets: lane.buckets?.map(bucketOf) ?? null,
    fires: lane.fires.map(instant).filter(at => at !== null),
    more: lane.truncated,
  }
}

function barOf(run: TimelineRun): Bar {
  return {
    runId: run.runId,
    fire: instant(run.fireTime) ?? 0,
    start: instant(run.startedAt),
    end: instant(run.endedAt),
    status: run.status,
    lateMs: run.lateMs,
    // A run of a backfill has a fire time in the past, but no lateness.
    mark: run.verdict === 'late' && run.lateMs === null ? 'on_time' : LANE_MARKS[run.verdict],
    until: instant(run.fireUntil),
    fires: run.fires ?? 1,
  }
}

/** A cancelled run is shown with the mark of a skipped one. */
const LANE_MARKS: Record<LaneVerdict, Mark> = {
  on_time: 'on_time',
  late: 'late',
  failed: 'failed',
  skipped: 'skipped',
  cancelled: 'skipped',
  missed: 'missed',
  running: 'running',
  waiting: 'waiting',
}

function bucketOf(bucket: { from: string; to: string; counts: Record<string, number> }): Bucket {
  const counts = noCounts()
  for (const [verdict, number] of Object.entries(bucket.counts))
    counts[LANE_MARKS[verdict as LaneVerdict] ?? 'skipped'] += number
  return { from: instant(bucket.from) ?? 0, to: instant(bucket.to) ?? 0, counts, total: sum(counts) }
}

export function noCounts(): Record<Mark, number> {
  return { on_time: 0, late: 0, failed: 0, skipped: 0, missed: 0, running: 0, waiting: 0 }
}

function sum(counts: Record<Mark, number>): number {
  return MARK_NAMES.reduce((total, mark) => total + counts[mark], 0)
}

/** The effect of an event on the lanes: `changed`, `stale` if the lanes must be fetched again, or `nothing`. */
export type Effect = 'changed' | 'stale' | 'nothing'

export function apply(model: Model, event: TimeballEvent): Effect {
  const at = instant(event.time)
  if (at === null) return 'nothing'
  if (isRunEvent(event)) return applyRun(model, event.data, at)
  if (isRunsChanged(event)) return applySums(model, event.data, at)
  return 'nothing'
}

function applyRun(model: Model, data: RunEventData, at: number): Effect {
  if (data.status === undefined) return 'nothing'
  const lanes = lanesOf(model, data)
  if (lanes.length === 0)
    return model.by === 'job' && data.jobId !== undefined && model.hiddenLanes === 0 ? 'stale' : 'nothing'
  const fire = instant(data.fireTime)
  for (const lane of lanes) {
    if (data.status === 'scheduled' && fire !== null) addFire(lane, fire)
    else if (lane.buckets !== null) {
      if (isTerminal(data.status)) count(lane, at, markOf({ status: data.status, lateMs: data.lateMs }), 1)
    } else putBar(lane, data, data.status, at)
  }
  return 'changed'
}

/** Adds a coming fire that an event announced. */
function addFire(lane: Lane, fire: number): void {
  if (lane.fires.includes(fire)) return
  const at = lane.fires.findIndex(other => other > fire)
  if (at >= 0) lane.fires.splice(at, 0, fire)
  else if (!lane.more) lane.fires.push(fire)
}

function lanesOf(model: Model, data: RunEventData): Lane[] {
  // The lane of the jobs without a tag has an empty id.
  const tags = data.tags ?? []
  const ids = model.by === 'job' ? [data.jobId ?? ''] : tags.length === 0 ? [''] : tags
  return ids.map(id => model.byId.get(id)).filter(lane => lane !== undefined)
}

function putBar(lane: Lane, data: RunEventData, status: RunStatus, at: number): void {
  const known = lane.byRun.get(data.runId)
  const fire = instant(data.fireTime) ?? known?.fire ?? at
  const isWaiting = status === 'scheduled' || status === 'blocked' || status === 'queued'
  const bar: Bar = {
    runId: data.runId,
    fire,
    start:
      known?.start ??
      (isWaiting || status === 'skipped' || status === 'cancelled' ? null : startOf(data, fire, status, at)),
    end: isTerminal(status) ? at : null,
    status,
    lateMs: data.lateMs ?? known?.lateMs ?? null,
    mark: 'running',
    until: null,
    fires: 1,
  }
  bar.mark = markOf(bar)
  lane.byRun.set(bar.runId, bar)
  if (known !== undefined) lane.bars[lane.bars.indexOf(known)] = bar
  else insert(lane.bars, bar)
  lane.fires = lane.fires.filter(due => due !== fire)
  while (lane.bars.length > MAX_LANE_BARS) {
    const old = lane.bars.shift()
    if (old !== undefined) lane.byRun.delete(old.runId)
  }
}

/**
 * Returns when a run started, if no earlier event showed its start: the fire time plus the lateness, if the event has
 * it. Otherwise it is the time of the event for a running run, and the fire time for any other.
 */
function startOf(data: RunEventData, fire: number, status: RunStatus, at: number): number {
  if (data.lateMs !== undefined) return fire + data.lateMs
  return status === 'running' ? at : fire
}

function insert(bars: Bar[], bar: Bar): void {
  let at = bars.length
  while (at > 0 && (bars[at - 1]?.fire ?? 0) > bar.fire) at--
  bars.splice(at, 0, bar)
}

function applySums(model: Model, data: RunsChangedData, at: number): Effect {
  const sums = model.by === 'job' ? data.jobs : data.tags
  let effect: Effect = data.jobsTruncated ? 'stale' : 'nothing'
  for (const [id, statuses] of Object.entries(sums)) {
    const lane = model.byId.get(id)
    if (lane === undefined) continue
    // A lane with single bars cannot show sums, so it must be fetched again.
    if (lane.buckets === null) effect = 'stale'
    else {
      for (const [status, number] of Object.entries(statuses)) {
        if (isTerminal(status as RunStatus)) count(lane, at, markOf({ status: status as RunStatus }), number ?? 0)
      }
      if (effect === 'nothing') effect = 'changed'
    }
  }
  return effect
}

/** Adds a number to the bucket of an instant. If the instant is after the last bucket, new buckets are appended. */
function count(lane: Lane, at: number, mark: Mark, number: number): void {
  const buckets = lane.buckets
  if (buckets === null || number === 0) return
  let last = buckets.at(-1)
  const length = last === undefined ? 0 : last.to - last.from
  while (last !== undefined && length > 0 && at >= last.to) {
    last = { from: last.to, to: last.to + length, counts: noCounts(), total: 0 }
    buckets.push(last)
  }
  const found = buckets.findLast(bucket => bucket.from <= at && at < bucket.to)
  if (found === undefined) return
  found.counts[mark] += number
  found.total += number
}

/** Removes the bars and buckets that ended before `from`. */
export function prune(model: Model, from: number): void {
  for (const lane of model.lanes) {
    while (
      lane.bars[0] !== undefined &&
      (lane.bars[0].until ?? lane.bars[0].end ?? Number.POSITIVE_INFINITY) < from &&
      lane.bars[0].fire < from
    ) {
      const old = lane.bars.shift()
      if (old !== undefined) lane.byRun.delete(old.runId)
    }
    while (lane.buckets?.[0] !== undefined && lane.buckets[0].to < from) lane.buckets.shift()
  }
}

/** Returns the sums of a lane by mark, for the table. */
export function laneCounts(lane: Lane): Record<Mark, number> {
  const counts = noCounts()
  for (const bar of lane.bars) counts[bar.mark] += bar.fires
  for (const bucket of lane.buckets ?? []) for (const mark of MARK_NAMES) counts[mark] += bucket.counts[mark]
  return counts
}

export function nextFire(lane: Lane, now: number): number | null {
  return lane.fires.find(at => at > now) ?? null
}

/** Returns the bar at an instant: the newest one that covers it, else the nearest one within `tolerance`. */
export function barAt(lane: Lane, at: number, now: number, tolerance: number): Bar | null {
  let best: Bar | null = null
  let distance = tolerance
  for (const bar of lane.bars) {
    const from = bar.start ?? bar.fire
    const to = bar.until ?? bar.end ?? (bar.start === null ? bar.fire : now)
    const away = at < from ? from - at : at > to ? at - to : 0
    if (away <= distance) {
      best = bar
      distance = away
    }
  }
  return best
}
