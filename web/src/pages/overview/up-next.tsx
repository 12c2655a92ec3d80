import { Link } from '@tanstack/react-router'
import type { Stats } from '@/api/types'
import { Countdown, Time } from '@/components/time'

/** The next fires of all jobs. */
export function UpNext({ items }: { items: Stats['upNext'] }) {
  if (items.length === 0) return <p className="px-4 py-4 text-ink-2 text-sm">No job has a coming fire.</p>
  return (
    <ol>
      {items.map(item => (
        <li key={item.jobId + item.fireTime} className="border-b last:border-0">
          <Link
            to="/jobs/$jobId"
            params={{ jobId: item.jobId }}
            className="flex h-9 items-center gap-3 px-4 text-sm hover:bg-hover"
          >
            <Countdown at={item.fireTime} className="w-16 shrink-0 font-medium" />
            <span className="bidi-plain min-w-0 flex-1 truncate">{item.jobName}</span>
            <Time at={item.fireTime} className="shrink-0 text-ink-3 text-xs" />
          </Link>
        </li>
      ))}
    </ol>
  )
}
