import type { ListState, PagedList } from '@/lib/paged-list'
import { count, plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { ErrorNotice } from './notices'

/** What stands below the last row of a list in pages. */
export function ListFooter<T>({ list, state, noun }: { list: PagedList<T>; state: ListState<T>; noun: string }) {
  if (state.error)
    return <ErrorNotice error={state.error} onRetry={() => void list.loadMore()} className="my-2 w-full max-w-xl" />
  if (!state.complete) return <span>Loading more after {plural(state.rows.length, noun)}</span>
  return <span>{plural(state.rows.length, noun)}</span>
}

/** New rows that wait above, while the reader is further down. */
export function NewRows<T>({
  list,
  state,
  noun,
  onShow,
}: {
  list: PagedList<T>
  state: ListState<T>
  noun: string
  onShow: () => void
}) {
  if (state.unseen === 0) return null
  const show = () => {
    if (list.hasGap) void list.restart()
    else list.showUnseen()
    onShow()
  }
  return (
    <div className="pointer-events-none absolute inset-x-0 top-10 z-20 flex justify-center">
      <Button small look="primary" icon="up" className="pointer-events-auto rounded-full shadow-pop" onClick={show}>
        {list.hasGap ? `${count(state.unseen)}+ new ${noun}s` : `${plural(state.unseen, `new ${noun}`)}`}
      </Button>
    </div>
  )
}
