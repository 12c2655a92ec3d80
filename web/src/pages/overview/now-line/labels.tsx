import { Link } from '@tanstack/react-router'
import { StateIcon } from '@/components/state'
import { Countdown } from '@/components/time'
import { useNow } from '@/lib/clock'
import { type Lane, type Model, nextFire } from './model'

/** The names of the lanes, as links. On narrow screens they are above the bars. */
export function LaneLabels({ model, laneHeight, width }: { model: Model; laneHeight: number; width: number }) {
  return (
    <ul
      aria-label="Lanes"
      className={width === 0 ? 'pointer-events-none absolute inset-x-0 top-0 z-[5]' : 'absolute top-0 left-0'}
      style={width === 0 ? {} : { width }}
    >
      {model.lanes.map(lane => (
        <li
          key={lane.id}
          style={{ height: laneHeight }}
          className={width === 0 ? 'h-4 overflow-hidden px-2' : 'flex items-center border-b px-4 pr-3 text-sm'}
        >
          <LaneLabel lane={lane} by={model.by} narrow={width === 0} withNext={width >= 200} />
        </li>
      ))}
    </ul>
  )
}

function LaneLabel({
  lane,
  by,
  narrow,
  withNext,
}: {
  lane: Lane
  by: 'job' | 'tag'
  narrow: boolean
  withNext: boolean
}) {
  const look = `bidi-plain pointer-events-auto min-w-0 truncate hover:text-accent hover:underline ${narrow ? 'inline-block max-w-full text-2xs leading-4 text-ink-2' : ''}`
  return (
    <>
      {lane.status !== null && lane.status !== 'scheduled' && !narrow && (
        <StateIcon job={lane.status} className="mr-1.5" />
      )}
      {by === 'job' ? (
        <Link to="/jobs/$jobId" params={{ jobId: lane.id }} className={look} title={lane.name}>
          {lane.name}
        </Link>
      ) : (
        <Link to="/jobs" search={{ tag: lane.id }} className={look} title={lane.name}>
          {lane.name}
        </Link>
      )}
      {withNext && <NextFire lane={lane} />}
    </>
  )
}

function NextFire({ lane }: { lane: Lane }) {
  const now = useNow()
  const next = nextFire(lane, now)
  return <span className="ml-auto pl-3 text-ink-3 text-xs">{next !== null && <Countdown at={next} />}</span>
}
