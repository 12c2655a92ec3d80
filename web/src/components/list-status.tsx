import type { ListState, PagedList } from '@/lib/paged-list'
import { count, plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { ErrorNotice } from './notices'

/** The element below the last row of a paged list: an error, the progress, or the number of items. */
export function ListFooter<T>({ list, state, noun }: { list: PagedList<T>; state: ListState<T>; noun: string }) {
  if (state.error)
    return <ErrorNotice error={state.error} onRetry={() => void list.loadMore()} className="my-2 w-full max-w-xl" />
  if (!state.complete) return <span>Loading more after {plural(state.rows.length, noun)}</span>
  return <span>{plural(state.rows.length, noun)}</span>
}

/** A button with the number of new rows at the top, while the user has scrolled down. It shows these rows. */
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
