import type { components } from '@/api/schema'
import { barOf, rangeOf, ticksOf } from '@/components/workflow/gantt'
import { taskLook } from '@/components/workflow/states'
import { useNow } from '@/lib/clock'
import { TONE_FILL, TONE_TEXT } from '@/lib/states'
import { duration } from '@/lib/time'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'

type WorkflowRun = components['schemas']['WorkflowRunView']
type Row = {
  key: string
  label: string
  task: string
  indent: boolean
  name: string
  status: string
  startTime: string | null
  endTime: string | null
}

const MAX_ROWS = 500
const MAX_INSTANCES_SHOWN = 40

/** The tasks over time. The bar of a running task grows each second. A waiting task has a row without a bar. */
export function Gantt({
  run,
  chosen,
  onChoose,
}: {
  run: WorkflowRun
  chosen: string | undefined
  onChoose: (name: string) => void
}) {
  const now = useNow()
  const range = rangeOf(run, now)
  const rows = rowsOf(run, chosen).slice(0, MAX_ROWS)
  const live = run.endTime === null
  return (
    <div className="relative min-w-0 pb-2 text-sm">
      <div className="grid grid-cols-[8.5rem_minmax(0,1fr)] sm:grid-cols-[14rem_minmax(0,1fr)]">
        <div className="border-b" />
        <div className="relative h-7 border-b text-2xs text-ink-3">
          {ticksOf(range, 5).map(tick => (
            <span
              key={tick.ms}
              style={{ left: `${tick.percent}%` }}
              className={cx(
                'absolute bottom-1 whitespace-nowrap',
                tick.percent > 94 ? '-translate-x-full pr-1' : tick.percent > 3 ? '-translate-x-1/2' : 'pl-1',
              )}
            >
              {tick.ms === 0 ? '0' : duration(tick.ms)}
            </span>
          ))}
        </div>
      </div>
      <ul aria-label="Tasks over time">
        {rows.map(row => {
          const bar = barOf(row, range, now)
          const look = taskLook(row.status)
          return (
            <li key={row.key}>
              <button
                type="button"
                aria-pressed={row.task === chosen}
                onClick={() => onChoose(row.task)}
                className={cx(
                  'grid w-full grid-cols-[8.5rem_minmax(0,1fr)] items-center text-left hover:bg-hover sm:grid-cols-[14rem_minmax(0,1fr)]',
                  row.indent ? 'h-6' : 'h-8',
                  row.task === chosen && 'bg-accent-soft',
                )}
              >
                <span
                  className={cx('flex min-w-0 items-center gap-2 pr-2 pl-4', row.indent && 'pl-9 text-ink-2 text-xs')}
                >
                  {!row.indent && <Icon name={look.icon} size={14} className={cx('shrink-0', TONE_TEXT[look.tone])} />}
                  <span className="bidi-plain truncate">{row.label}</span>
                  {bar.ms !== null && <span className="sr-only">{look.label}</span>}
                </span>
                <span className="relative h-full">
                  {bar.left !== null && (
                    <span
                      style={{ left: `${bar.left}%`, width: `max(${bar.width}%, 3px)` }}
                      className={cx(
                        'absolute rounded-[3px]',
                        row.indent ? 'top-1.5 h-3' : 'top-1.5 h-5',
                        TONE_FILL[look.tone],
                        bar.running && 'rounded-r-none opacity-80 transition-[width] duration-1000 ease-linear',
                        bar.earlier && bar.width === 0 && 'opacity-40',
                      )}
                    />
                  )}
                  <span
                    style={labelPlace(bar.left, bar.width)}
                    className={cx(
                      'absolute top-1/2 -translate-y-1/2 whitespace-nowrap px-1.5 text-2xs',
                      bar.left === null
                        ? 'text-ink-3'
                        : isInside(bar.left, bar.width)
                          ? 'font-medium text-surface'
                          : 'text-ink-2',
                    )}
                  >
                    {bar.ms === null ? look.label : duration(bar.ms)}
                    {bar.earlier && bar.width === 0 && ', in an earlier run'}
                  </span>
                </span>
              </button>
            </li>
          )
        })}
      </ul>
      {live && (
        <div
          aria-hidden="true"
          className="pointer-events-none absolute inset-y-0 right-0 border-live border-r border-dashed"
        />
      )}
      {run.tasks.length > MAX_ROWS && (
        <p className="px-4 py-2 text-ink-3 text-xs">The first {MAX_ROWS} tasks. The table shows all of them.</p>
      )}
    </div>
  )
}

function isInside(left: number, width: number): boolean {
  return left + width >= 84 && left <= 16
}

/** Returns the position of a label: on the right of the bar, or on its left if the bar reaches the end. */
function labelPlace(left: number | null, width: number): { left?: string; right?: string } {
  if (left === null) return { left: '0%' }
  const end = left + width
  if (end < 84) return { left: `${end}%` }
  return isInside(left, width) ? { right: '0%' } : { right: `${100 - left}%` }
}

function rowsOf(run: WorkflowRun, chosen: string | undefined): Row[] {
  return run.tasks.flatMap(task => {
    const row: Row = { ...task, key: task.name, task: task.name, label: task.name, indent: false }
    if (task.name !== chosen || task.instances === undefined) return [row]
    const parts = run.instances.filter(item => item.name === task.name).slice(0, MAX_INSTANCES_SHOWN)
    return [
      row,
      ...parts.map(item => ({
        ...item,
        key: `${item.name} ${item.index}`,
        task: task.name,
        label: `item ${item.index}`,
        indent: true,
      })),
    ]
  })
}
