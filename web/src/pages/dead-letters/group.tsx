import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { components } from '@/api/schema'
import { useDenied } from '@/api/session'
import type { Run } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { ErrorNotice, SkeletonRows } from '@/components/notices'
import { RelativeTime, Time } from '@/components/time'
import { useNow } from '@/lib/clock'
import { count, plural } from '@/lib/time'
import { Button, IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'
import { Menu, MenuItem } from '@/ui/menu'
import { letterCommands } from './commands'
import { type Discard, discards } from './discards'
import type { LettersFilter } from './search'

export type Group = components['schemas']['GroupView']

export type GroupActions = {
  retryAll: (group: Group) => void
  editAll: (group: Group) => void
  discardAll: (group: Group) => void
  retryRun: (run: Run) => void
  editRun: (run: Run) => void
  discardRun: (run: Run) => void
}

const PAGE_SIZE = 50

/** A group of dead letters with the same error. */
export function GroupCard({
  group,
  open,
  onToggle,
  filter,
  actions,
  pending,
}: {
  group: Group
  open: boolean
  onToggle: () => void
  filter: LettersFilter
  actions: GroupActions
  pending: readonly Discard[]
}) {
  const denied = useDenied('run')
  const noEdit = useDenied('edit')
  const whole = pending.find(item => item.fingerprint === group.fingerprint)
  if (whole !== undefined)
    return (
      <div className="panel flex items-center gap-3 px-4 py-3 text-sm">
        <UndoRow discard={whole} />
      </div>
    )
  return (
    <article className="panel min-w-0 overflow-clip">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2 px-4 py-3 sm:flex-nowrap">
        <button
          type="button"
          aria-expanded={open}
          onClick={onToggle}
          className="flex min-w-0 basis-full items-start gap-3 rounded-sm text-left sm:flex-1 sm:basis-0"
        >
          <Icon name={open ? 'down' : 'right'} className="mt-1 shrink-0 text-ink-3" />
          <span className="min-w-8 shrink-0 text-right font-semibold text-lg leading-6">{count(group.count)}</span>
          <span className="min-w-0 flex-1">
            <span
              className={cx(
                'bidi-plain block whitespace-pre-wrap font-mono text-xs leading-6 [overflow-wrap:anywhere]',
                !open && 'line-clamp-2',
              )}
            >
              {group.message ?? 'No error was recorded.'}
            </span>
            <span className="block text-ink-2 text-xs">
              {group.kind !== null && (
                <span className="mr-2 rounded-sm bg-dead/12 px-1.5 py-0.5 font-medium text-dead">{group.kind}</span>
              )}
              {plural(group.jobs, 'job')} · last <RelativeTime at={group.lastAt} />
              {group.count > 1 && (
                <>
                  {' '}
                  · first <RelativeTime at={group.firstAt} />
                </>
              )}
            </span>
          </span>
        </button>
        <div className="flex shrink-0 items-center gap-1.5 pl-7 sm:pl-0">
          <Button small icon="retry" why={denied} onClick={() => actions.retryAll(group)}>
            Retry {count(group.count)}
          </Button>
          <Button small icon="edit" look="quiet" why={noEdit} onClick={() => actions.editAll(group)}>
            Edit
          </Button>
          <Button small icon="trash" look="quiet" why={denied} onClick={() => actions.discardAll(group)}>
            Discard
          </Button>
          <CopyAs commands={() => letterCommands('retry', { filter, fingerprint: group.fingerprint })} />
        </div>
      </div>
      {open && <Runs group={group} filter={filter} actions={actions} pending={pending} />}
    </article>
  )
}

function UndoRow({ discard }: { discard: Discard }) {
  const now = useNow()
  const left = Math.max(0, Math.ceil((discard.endsAt - now) / 1000))
  return (
    <>
      <Icon name="trash" className="shrink-0 text-ink-3" />
      <span className="min-w-0 flex-1 text-ink-2" role="status">
        {discard.state === 'sending'
          ? `Discarding ${plural(discard.count, 'dead letter')}`
          : `${plural(discard.count, 'dead letter')} will be discarded in ${left} s`}
      </span>
      {discard.state === 'waiting' && (
        <Button small icon="undo" onClick={() => discards.undo(discard.id)}>
          Undo
        </Button>
      )}
    </>
  )
}

function Runs({
  group,
  filter,
  actions,
  pending,
}: {
  group: Group
  filter: LettersFilter
  actions: GroupActions
  pending: readonly Discard[]
}) {
  const runs = useInfiniteQuery({
    queryKey: keys.deadLetters('runs', group.fingerprint, filter),
    queryFn: ({ pageParam, signal }) =>
      api.get('/v1/dead-letters', {
        query: {
          ...filter,
          fingerprint: group.fingerprint,
          ...(pageParam === '' ? {} : { cursor: pageParam }),
          limit: PAGE_SIZE,
        },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: page => page.nextCursor,
  })
  if (runs.error && runs.data === undefined)
    return <ErrorNotice error={runs.error} onRetry={() => void runs.refetch()} className="m-4" />
  if (runs.data === undefined)
    return (
      <div className="border-t">
        <SkeletonRows rows={Math.min(group.count, 5)} height={44} />
      </div>
    )
  const rows = runs.data.pages.flatMap(page => page.items)
  return (
    <div className="border-t bg-bg">
      <ul aria-label="Dead letters of this group">
        {rows.map(run => (
          <RunRow
            key={run.runId}
            run={run}
            actions={actions}
            discard={pending.find(item => item.runIds.includes(run.runId))}
          />
        ))}
      </ul>
      {runs.hasNextPage && (
        <div className="flex items-center justify-center gap-3 py-2 text-ink-3 text-xs">
          {count(rows.length)} of {count(group.count)}
          <Button small busy={runs.isFetchingNextPage} onClick={() => void runs.fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
    </div>
  )
}

function RunRow({ run, actions, discard }: { run: Run; actions: GroupActions; discard: Discard | undefined }) {
  const denied = useDenied('run')
  const noEdit = useDenied('edit')
  if (discard !== undefined)
    return (
      <li className="flex min-h-11 items-center gap-3 border-b px-4 text-sm last:border-0">
        <UndoRow discard={discard} />
      </li>
    )
  return (
    <li className="flex min-h-11 flex-wrap items-center gap-x-4 gap-y-0.5 border-b px-4 py-1.5 text-sm last:border-0 hover:bg-hover">
      <Link
        to="/runs/$runId"
        params={{ runId: run.runId }}
        className="bidi-plain min-w-0 flex-1 truncate font-medium hover:text-accent sm:flex-none sm:basis-64"
      >
        {run.jobName || run.jobId}
      </Link>
      <span className="order-last min-w-0 basis-full truncate font-mono text-ink-2 text-xs sm:order-none sm:flex-1 sm:basis-0">
        <bdi>{run.error?.message ?? ''}</bdi>
      </span>
      <span className="hidden text-ink-3 text-xs md:inline">
        <Time at={run.endTime} /> · attempt {run.attempt}
      </span>
      <span className="flex items-center">
        <Button small look="quiet" icon="retry" why={denied} onClick={() => actions.retryRun(run)}>
          Retry
        </Button>
        <Menu trigger={<IconButton label={`More for ${run.runId}`} icon="dots" />}>
          <MenuItem icon="edit" why={noEdit} onSelect={() => actions.editRun(run)}>
            Edit and retry
          </MenuItem>
          <MenuItem icon="trash" why={denied} onSelect={() => actions.discardRun(run)}>
            Discard
          </MenuItem>
        </Menu>
      </span>
    </li>
  )
}
