import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { CopyAs } from '@/components/copy'
import { Loaded, Skeleton, SkeletonRows } from '@/components/notices'
import { Section } from '@/layout/page'
import { zone } from '@/lib/settings'
import { plural } from '@/lib/time'
import { IconButton } from '@/ui/button'
import { BusyList } from './busy-list'
import { NeedChart } from './charts'
import { forecastCommands } from './commands'
import { hourAround, loadText, spanText } from './model'

const CHART_HEIGHT = 140
const SHOWN_MINUTES = 5

/** The details of one hour by the minute: the busy instants, and the jobs that fire at them. */
export function HourPanel({ at, onClose }: { at: number; onClose: () => void }) {
  const shownZone = zone.use()
  const range = hourAround(at, shownZone)
  const query = { from: new Date(range.from).toISOString(), to: new Date(range.to).toISOString(), bucket: '1m' }
  const found = useQuery({
    queryKey: keys.forecast(query),
    queryFn: ({ signal }) => api.get('/v1/forecast', { query, signal }),
    placeholderData: keepPreviousData,
  })
  return (
    <Section
      title={spanText(range.from, range.to, shownZone)}
      aside={
        <>
          <CopyAs commands={() => forecastCommands(range)} />
          <IconButton label="Close" icon="close" onClick={onClose} />
        </>
      }
    >
      <Loaded
        query={found}
        skeleton={
          <div className="grid gap-2 p-2">
            <Skeleton className="h-[140px] w-full" />
            <SkeletonRows rows={3} height={72} />
          </div>
        }
      >
        {forecast => {
          const fires = forecast.items.reduce((sum, item) => sum + item.fires, 0)
          const over = forecast.items.filter(item => (item.load ?? 0) > 1).length
          if (fires === 0) return <p className="px-4 py-6 text-ink-2 text-sm">No job fires in this hour.</p>
          return (
            <>
              <p className="px-4 pt-3 text-sm">
                {plural(fires, 'fire')} in this hour.{' '}
                {over > 0 ? (
                  <strong className="font-semibold text-bad">
                    {over === 1 ? 'One minute brings' : `${over} minutes bring`} more work than{' '}
                    {plural(forecast.slots, 'slot')} can do at once: runs start late.
                  </strong>
                ) : (
                  forecast.peak?.load != null &&
                  `The busiest minute needs ${loadText(forecast.peak.load)} of what the slots can do in it.`
                )}
              </p>
              <div className="px-2 py-2">
                <NeedChart
                  bars
                  buckets={forecast.items}
                  slots={forecast.slots}
                  height={CHART_HEIGHT}
                  label="Slots needed in each minute of this hour"
                />
              </div>
              <h3 className="label border-t px-4 pt-3">Busiest minutes</h3>
              <BusyList label="Busiest minutes" items={forecast.busiest.slice(0, SHOWN_MINUTES)} />
            </>
          )
        }}
      </Loaded>
    </Section>
  )
}
