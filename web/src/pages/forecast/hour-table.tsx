import { type Column, DataTable } from '@/components/data-table'
import { zone } from '@/lib/settings'
import { count, duration } from '@/lib/time'
import { Icon } from '@/ui/icon'
import { type HourCell, loadOf, loadText, spanText } from './model'

const COLUMNS: readonly Column<HourCell>[] = [
  {
    id: 'hour',
    header: 'Hour',
    width: 'minmax(13rem, 2fr)',
    cell: cell => <span className="font-medium">{spanText(cell.from, cell.to, zone.get())}</span>,
  },
  { id: 'fires', header: 'Fires', width: '6rem', align: 'right', cell: cell => count(cell.fires) },
  {
    id: 'work',
    header: 'Work',
    width: '8rem',
    align: 'right',
    cell: cell => <span className="text-ink-2">{duration(cell.runSeconds * 1000)}</span>,
  },
  {
    id: 'load',
    header: 'Of the capacity',
    width: 'minmax(8rem, 1fr)',
    align: 'right',
    cell: cell => <Load cell={cell} />,
  },
]

function Load({ cell }: { cell: HourCell }) {
  const load = loadOf(cell)
  if (load === null || load <= 1) return <span className="text-ink-2">{loadText(load)}</span>
  return (
    <span className="inline-flex items-center gap-1.5 align-middle font-semibold text-bad">
      <Icon name="state-late" size={14} /> {loadText(load)}
    </span>
  )
}

const rowKey = (cell: HourCell) => String(cell.from)
const compact = (cell: HourCell) => (
  <>
    <div className="flex items-center gap-2">
      <span className="min-w-0 flex-1 truncate font-medium">{spanText(cell.from, cell.to, zone.get())}</span>
      <Load cell={cell} />
    </div>
    <div className="text-ink-2 text-xs">
      {count(cell.fires)} fires, {duration(cell.runSeconds * 1000)} of work
    </div>
  </>
)

/** The hours that have fires, as a table. */
export function HourTable({ cells, onChoose }: { cells: readonly HourCell[]; onChoose: (cell: HourCell) => void }) {
  return (
    <DataTable
      rows={cells}
      columns={COLUMNS}
      rowKey={rowKey}
      compact={compact}
      label="Hours"
      onOpen={onChoose}
      className="max-h-[60vh]"
    />
  )
}
