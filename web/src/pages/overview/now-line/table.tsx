import { Link } from '@tanstack/react-router'
import { StateBadge } from '@/components/state'
import { Countdown, Time } from '@/components/time'
import { useNow } from '@/lib/clock'
import { MARK_NAMES, MARKS } from '@/lib/states'
import { count } from '@/lib/time'
import { laneCounts, type Model, nextFire } from './model'

/** The now line as a table, for screen readers and for exact figures. */
export function NowLineTable({ model }: { model: Model }) {
  const now = useNow()
  return (
    <section aria-label="The now line as a table" tabIndex={0} className="overflow-x-auto">
      <table className="w-full min-w-[44rem] text-sm">
        <thead>
          <tr className="border-b text-left">
            <th className="label px-4 py-2">{model.by === 'job' ? 'Job' : 'Tag'}</th>
            <th className="label px-2">Last run</th>
            {MARK_NAMES.map(mark => (
              <th key={mark} className="label px-2 text-right">
                {MARKS[mark].label}
              </th>
            ))}
            <th className="label px-4 text-right">Next fire</th>
          </tr>
        </thead>
        <tbody>
          {model.lanes.map(lane => {
            const counts = laneCounts(lane)
            const last = lane.bars.at(-1)
            return (
              <tr key={lane.id} className="h-9 border-b last:border-0 hover:bg-hover">
                <th scope="row" className="bidi-plain max-w-64 truncate px-4 text-left font-normal">
                  {model.by === 'job' ? (
                    <Link to="/jobs/$jobId" params={{ jobId: lane.id }} className="hover:text-accent hover:underline">
                      {lane.name}
                    </Link>
                  ) : (
                    lane.name
                  )}
                </th>
                <td className="whitespace-nowrap px-2">
                  {last === undefined ? (
                    <span className="text-ink-3">–</span>
                  ) : (
                    <Link
                      to="/runs/$runId"
                      params={{ runId: last.runId }}
                      className="inline-flex gap-2 hover:underline"
                    >
                      <StateBadge look={MARKS[last.mark]} /> <Time at={last.fire} className="text-ink-2" />
                    </Link>
                  )}
                </td>
                {MARK_NAMES.map(mark => (
                  <td key={mark} className={`px-2 text-right ${counts[mark] === 0 ? 'text-ink-3' : ''}`}>
                    {count(counts[mark])}
                  </td>
                ))}
                <td className="px-4 text-right">
                  <Countdown at={nextFire(lane, now)} />
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </section>
  )
}
