import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { CopyAs } from '@/components/copy'
import { EmptyState, Loaded, Skeleton } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { Sentence, Time } from '@/components/time'
import { serverNow } from '@/lib/clock'
import { zone } from '@/lib/settings'
import { TONE_FILL, VERDICTS } from '@/lib/states'
import { count, duration, instant, partsOf, plural } from '@/lib/time'
import { Button, IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Segments } from '@/ui/field'
import { ledgerCommands } from '../commands'
import { Calendar } from './calendar'
import { type Cell, type Counts, removedFires, VERDICT_ORDER } from './ledger'
import { type Level, periodOf } from './periods'
import { type LedgerData, useLedger } from './use-ledger'

export type LedgerPlace = { level: Level; at: number }

const LEVELS: readonly { value: Level; label: string }[] = [
  { value: 'month', label: 'Month' },
  { value: 'day', label: 'Day' },
  { value: 'hour', label: 'Hour' },
]

/** The ledger of a job for a month, a day or an hour: the verdict of each fire, and their sums. */
export function LedgerTab({
  jobId,
  place,
  onPlace,
}: {
  jobId: string
  place: LedgerPlace
  onPlace: (place: LedgerPlace) => void
}) {
  const shownZone = zone.use()
  const navigate = useNavigate()
  const [selected, setSelected] = useState<Cell | null>(null)
  const period = periodOf(place.level, place.at, shownZone)
  const ledger = useLedger(jobId, place.level, period, shownZone)
  const move = (step: number) => {
    setSelected(null)
    onPlace({ ...place, at: periodOf(place.level, place.at, shownZone, step).from })
  }
  const pick = (cell: Cell) => {
    if (cell.item.runId === null) setSelected(cell)
    else void navigate({ to: '/runs/$runId', params: { runId: cell.item.runId } })
  }
  return (
    <div className="grid gap-4">
      <div className="flex flex-wrap items-center gap-2">
        <Segments
          label="Period"
          value={place.level}
          options={LEVELS}
          onChange={level => {
            setSelected(null)
            onPlace({ ...place, level })
          }}
        />
        <div className="flex items-center gap-2">
          <IconButton label="Earlier" icon="left" onClick={() => move(-1)} />
          <h2 className="min-w-32 text-center font-semibold text-sm">
            {periodName(place.level, period.from, shownZone)}
          </h2>
          <IconButton label="Later" icon="right" disabled={period.to > serverNow()} onClick={() => move(1)} />
          <Button small look="quiet" onClick={() => onPlace({ ...place, at: serverNow() })}>
            Now
          </Button>
        </div>
        <span className="flex-1" />
        <CopyAs commands={() => ledgerCommands(jobId, period)} />
      </div>
      <Loaded query={ledger} skeleton={<Skeleton className="h-96 w-full rounded-lg" />}>
        {data => (
          <div className={cx('grid gap-4', ledger.isPlaceholderData && 'opacity-60')}>
            <Sums data={data} />
            {selected !== null && <Reason cell={selected} onClose={() => setSelected(null)} />}
            {data.due === 0 ? (
              <EmptyState icon="calendar" title="Nothing was due in this period">
                Choose another period, or wait for the next fire.
              </EmptyState>
            ) : (
              <Calendar
                level={place.level}
                buckets={data.buckets}
                isSummed={data.isSummed}
                zone={shownZone}
                selected={selected}
                onPick={pick}
                onOpen={(level, at) => {
                  setSelected(null)
                  onPlace({ level, at })
                }}
              />
            )}
          </div>
        )}
      </Loaded>
    </div>
  )
}

function periodName(level: Level, from: number, shownZone: string): string {
  const p = partsOf(from, shownZone)
  if (level === 'month') return `${p.year}-${p.month}`
  if (level === 'day') return `${p.year}-${p.month}-${p.day}`
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}`
}

/** Shows the sums as an equation: due = on time + late + …. */
function Sums({ data }: { data: LedgerData }) {
  const shown = VERDICT_ORDER.filter(verdict => (data.counts[verdict] ?? 0) > 0)
  const removed = data.isSummed ? 0 : removedFires(data.due, data.buckets)
  return (
    <div className="panel px-4 py-3">
      <div className="flex flex-wrap items-baseline gap-x-3 gap-y-1 text-sm">
        <span>
          <span className="font-semibold text-lg">{count(data.due)}</span> <span className="text-ink-2">due</span>
        </span>
        {shown.map((verdict, index) => (
          <span key={verdict} className="flex items-baseline gap-x-3">
            <span className="text-ink-3">{index === 0 ? '=' : '+'}</span>
            <span className="inline-flex items-baseline gap-1.5">
              <span className="font-semibold text-lg">{count(data.counts[verdict] ?? 0)}</span>
              <StateBadge verdict={verdict} className="self-center" />
            </span>
          </span>
        ))}
      </div>
      <Proportions counts={data.counts} total={data.due} />
      {removed > 0 && (
        <p className="mt-2 text-ink-3 text-xs">
          Of {plural(removed, 'fire')} only the sum is kept: the runs were removed by retention, and have no cell.
        </p>
      )}
    </div>
  )
}

function Proportions({ counts, total }: { counts: Counts; total: number }) {
  return (
    <div aria-hidden="true" className="mt-2 flex h-1.5 gap-px overflow-hidden rounded-sm bg-sunken">
      {VERDICT_ORDER.filter(verdict => (counts[verdict] ?? 0) > 0).map(verdict => (
        <span
          key={verdict}
          style={{ width: `max(3px, ${((counts[verdict] ?? 0) / Math.max(1, total)) * 100}%)` }}
          className={TONE_FILL[VERDICTS[verdict].tone]}
        />
      ))}
    </div>
  )
}

/** Shows why the fires of a cell have no run. */
function Reason({ cell, onClose }: { cell: Cell; onClose: () => void }) {
  const { item } = cell
  const until = instant(item.fireUntil)
  return (
    <div role="status" className="panel flex items-start gap-3 px-4 py-3 text-sm">
      <StateBadge verdict={item.verdict} className="font-medium" />
      <div className="min-w-0 flex-1">
        <p>
          <Time at={item.fireTime} full />
          {item.count > 1 && (
            <>
              {' '}
              to <Time at={until} full />, {plural(item.count, 'fire')}
            </>
          )}
          {item.lateMs !== null && `, ${duration(item.lateMs)} late`}
        </p>
        <p className="bidi-plain text-ink-2 [overflow-wrap:anywhere]">
          {item.reason === '' ? VERDICTS[item.verdict].meaning : <Sentence text={item.reason} />}
        </p>
      </div>
      <IconButton label="Close" icon="close" size={14} onClick={onClose} className="-my-1" />
    </div>
  )
}
