import { RelativeTime } from '@/components/time'
import { useNow } from '@/lib/clock'
import { Icon } from '@/ui/icon'
import { stateAt } from './closed'
import type { ClosedTimes } from './use-closed'

/** Shows whether a calendar is open now and until when, with an icon and text. */
export function NowState({ times, withTime = true }: { times: ClosedTimes; withTime?: boolean }) {
  const now = useNow()
  const state = stateAt(times.closed, now, times.to)
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap align-middle" title={state.reason ?? undefined}>
      <Icon
        name={state.closed ? 'state-lock' : 'state-ok'}
        size={14}
        className={state.closed ? 'shrink-0 text-late' : 'shrink-0 text-ok'}
      />
      {state.closed ? 'Closed' : 'Open'}
      {withTime && state.until !== null && (
        <span className="text-ink-2">
          · {state.closed ? 'opens' : 'closes'} <RelativeTime at={state.until} />
        </span>
      )}
    </span>
  )
}
