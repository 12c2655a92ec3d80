import type { JobStatus, LaneVerdict, RunStatus, Timeline, TimelineLane, TimelineRun } from '@/api/types'
import { isRunEvent, isRunsChanged, type RunEventData, type RunsChangedData, type TimeballEvent } from '@/events/types'
import { isTerminal, MARK_NAMES, type Mark, markOf } from '@/lib/states'
import { instant } from '@/lib/time'

/** What the now line shows: lanes of past runs and coming fires. Events change it in place. */

export type Bar = {
  runId: string
  fire: number
  start: number | null
  end: number | null
  status: RunStatus
  lateMs: number | null
  mark: Mark
  /** Fires that never ran and follow each other share one bar: the last of them, and how many they are. */
  until: number | null
  fires: number
}

export type Bucket = { from: number; to: number; counts: Record<Mark, number>; total: number }

export type Lane = {
  id: string
  name: string
  status: JobStatus | null
  /** In the order of their fires. */
  bars: Bar[]
  byRun: Map<string, Bar>
  /** A lane with many runs has sums instead of bars. */
  buckets: Bucket[] | null
  /** Coming fires, in order. */
  fires: number[]
  /** There are more fires after the last. */
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

/** More bars than this in one lane are not told apart; the oldest leave. */
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
    mark: LANE_MARKS[run.verdict],
    until: instant(run.fireUntil),
    fires: run.fires ?? 1,
  }
}

/** A cancelled run is shown as one that was skipped. */
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

/** What an event did: `changed`, `stale` if the lanes do not know what it is about, or `nothing`. */
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

/** A fire that became known: the next one of its job. */
function addFire(lane: Lane, fire: number): void {
  if (lane.fires.includes(fire)) return
  const at = lane.fires.findIndex(other => other > fire)
  if (at >= 0) lane.fires.splice(at, 0, fire)
  else if (!lane.more) lane.fires.push(fire)
}

function lanesOf(model: Model, data: RunEventData): Lane[] {
  // The lane of jobs without a tag has an empty id.
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

/** When a run began whose start was not seen. */
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
    // A lane of single bars cannot show sums: it is read again.
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

/** Adds to the bucket of an instant; after the last bucket, it makes the next one. */
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

/** Removes what has left the window at the left. */
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

/** The sums of a lane, for the table. */
export function laneCounts(lane: Lane): Record<Mark, number> {
  const counts = noCounts()
  for (const bar of lane.bars) counts[bar.mark] += bar.fires
  for (const bucket of lane.buckets ?? []) for (const mark of MARK_NAMES) counts[mark] += bucket.counts[mark]
  return counts
}

export function nextFire(lane: Lane, now: number): number | null {
  return lane.fires.find(at => at > now) ?? null
}

/** The bar at an instant: the one that covers it, else the nearest within `tolerance`. The newest wins. */
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
