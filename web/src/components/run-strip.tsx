import { useNavigate } from '@tanstack/react-router'
import type { MouseEvent } from 'react'
import type { RecentRun } from '@/api/types'
import { MARKS, markOf, TONE_FILL } from '@/lib/states'
import { duration, instant, plural } from '@/lib/time'
import { cx } from '@/ui/cx'

const MAX_RUNS = 20

/**
 * The last runs of a job as bars, the newest on the right. The colour shows the verdict, the height the duration. The
 * bar of a failed run continues below the line, so that failures are visible without colour.
 */
export function RunStrip({ runs, className }: { runs: readonly RecentRun[]; className?: string }) {
  const navigate = useNavigate()
  const shown = runs.slice(0, MAX_RUNS).toReversed()
  const lengths = shown.map(lengthOf)
  const longest = Math.max(1, ...lengths)
  const failed = shown.filter(run => markOf(run) === 'failed').length
  const text = shown.length === 0 ? 'No runs yet' : `Last ${plural(shown.length, 'run')}: ${failed} failed`
  // A click on a bar opens its run. Keyboard users find the same runs as links on the page of the job.
  const open = (event: MouseEvent) => {
    const bar = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-run]') : null
    if (bar?.dataset.run === undefined) return
    event.stopPropagation()
    void navigate({ to: '/runs/$runId', params: { runId: bar.dataset.run } })
  }
  return (
    <div role="img" aria-label={text} onClick={open} className={cx('flex h-6 items-end gap-px', className)}>
      {shown.length === 0 && <span className="self-center text-ink-3 text-xs">no runs yet</span>}
      {shown.map((run, index) => {
        const mark = markOf(run)
        const height = 6 + Math.round(13 * Math.sqrt((lengths[index] ?? 0) / longest))
        return (
          <span
            key={run.runId}
            data-run={run.runId}
            title={`${MARKS[mark].label}, ${run.status}${run.endedAt === null ? '' : `, ${duration(lengths[index] ?? 0)}`}`}
            className="flex h-full w-1.5 items-end hover:opacity-70"
          >
            <span
              style={{ height: mark === 'failed' ? 24 : height, marginBottom: mark === 'failed' ? 0 : 5 }}
              className={cx(
                'w-full rounded-[1.5px]',
                mark === 'skipped' || mark === 'missed' || mark === 'waiting'
                  ? 'border border-current bg-transparent'
                  : TONE_FILL[MARKS[mark].tone],
                (mark === 'skipped' || mark === 'waiting') && 'text-idle',
                mark === 'missed' && 'text-missed',
              )}
            />
          </span>
        )
      })}
    </div>
  )
}

function lengthOf(run: RecentRun): number {
  const start = instant(run.startedAt)
  const end = instant(run.endedAt)
  return start === null || end === null ? 0 : Math.max(0, end - start)
}
