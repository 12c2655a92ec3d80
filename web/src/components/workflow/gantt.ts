/** Computes the bars of tasks over time, in percent of the shown range. */

export type TimedTask = { name: string; status: string; startTime: string | null; endTime: string | null }

export type Bar = {
  name: string
  status: string
  /** The left edge in percent; null if the task has not started. `width` is in percent, too. */
  left: number | null
  width: number
  /** True if the task started before the shown range. A retry keeps the tasks that succeeded earlier. */
  earlier: boolean
  running: boolean
  ms: number | null
}

export type Range = { from: number; to: number }

/**
 * Returns the shown range: from the start of the run to its end, or to now if it has not ended; at least one second.
 */
export function rangeOf(
  run: { startTime: string | null; fireTime: string; endTime: string | null },
  now: number,
): Range {
  const from = Date.parse(run.startTime ?? run.fireTime)
  const to = run.endTime === null ? now : Date.parse(run.endTime)
  return { from, to: Math.max(to, from + 1000) }
}

export function barOf(task: TimedTask, range: Range, now: number): Bar {
  const start = task.startTime === null ? null : Date.parse(task.startTime)
  const common = { name: task.name, status: task.status }
  if (start === null) return { ...common, left: null, width: 0, earlier: false, running: false, ms: null }
  const end = task.endTime === null ? Math.max(now, start) : Date.parse(task.endTime)
  const length = range.to - range.from
  const percent = (at: number) => Math.min(100, Math.max(0, ((at - range.from) / length) * 100))
  const left = percent(start)
  return {
    ...common,
    left,
    width: percent(end) - left,
    earlier: start < range.from,
    running: task.endTime === null,
    ms: end - start,
  }
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800]

/** Returns at most `most` ticks at round distances from the start. */
export function ticksOf(range: Range, most: number): { percent: number; ms: number }[] {
  const length = range.to - range.from
  const step = (STEPS.find(seconds => length / (seconds * 1000) <= most) ?? Math.ceil(length / most / 1000)) * 1000
  const ticks: { percent: number; ms: number }[] = []
  for (let ms = 0; ms <= length && ticks.length <= most; ms += step) ticks.push({ percent: (ms / length) * 100, ms })
  return ticks
}
