import type { ReactNode } from 'react'
import { ApiError, advice } from '@/api/problem'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Icon, type IconName } from '@/ui/icon'
import { CopyText } from './copy'

/** A placeholder with the size of the data that is being fetched, so that nothing moves when the data arrives. */
export function Skeleton({ className }: { className?: string }) {
  return <div aria-hidden="true" className={cx('animate-skeleton rounded-sm bg-hover', className ?? 'h-4 w-full')} />
}

export function SkeletonRows({ rows = 8, height = 36 }: { rows?: number; height?: number }) {
  return (
    <div aria-hidden="true">
      {Array.from({ length: rows }, (_, row) => (
        <div key={`row-${row + 1}`} style={{ height }} className="flex items-center gap-6 border-b px-4">
          <Skeleton className="h-3.5 w-1/4" />
          <Skeleton className="h-3.5 w-1/6" />
          <Skeleton className="h-3.5 w-1/3" />
        </div>
      ))}
    </div>
  )
}

/** Shows an error, and what the user can do about it. */
export function ErrorNotice({
  error,
  onRetry,
  title,
  hint,
  className,
}: {
  error: unknown
  onRetry?: () => void
  title?: string
  /** Advice for this error, instead of the general one. */
  hint?: string | undefined
  className?: string
}) {
  const text = error instanceof Error ? error.message : String(error)
  const problem = error instanceof ApiError ? error.problem : null
  return (
    <div
      role="alert"
      className={cx('flex items-start gap-3 rounded-lg border border-line bg-bad-soft px-4 py-3', className)}
    >
      <Icon name="state-bad" className="mt-1 shrink-0 text-bad" />
      <div className="min-w-0 flex-1 text-sm [overflow-wrap:anywhere]">
        <p className="font-medium">{title ?? problem?.title ?? 'Something went wrong'}</p>
        {text !== (title ?? problem?.title) && <p className="text-ink-2">{text}</p>}
        {problem?.errors?.map(item => (
          <p key={item.pointer + item.detail} className="text-ink-2">
            <code className="font-mono text-xs">{item.pointer}</code> {item.detail}
          </p>
        ))}
        <p className="mt-1 text-ink-2">{hint ?? advice(error)}</p>
      </div>
      {onRetry !== undefined && (
        <Button small icon="retry" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  )
}

/** Shown for an empty list: describes what the list will contain, and the command that creates an item. */
export function EmptyState({
  icon = 'info',
  title,
  children,
  command,
  action,
}: {
  icon?: IconName
  title: string
  children?: ReactNode
  command?: string
  action?: ReactNode
}) {
  return (
    <div className="mx-auto grid max-w-xl justify-items-center gap-2 px-4 py-14 text-center">
      <Icon name={icon} size={22} className="text-ink-3" />
      <p className="font-medium">{title}</p>
      {children !== undefined && <div className="text-ink-2 text-sm">{children}</div>}
      {command !== undefined && <CopyText text={command} className="mt-2 max-w-full" />}
      {action}
    </div>
  )
}

/** Shows a skeleton while a query is fetched, then its error or its data. */
export function Loaded<T>({
  query,
  children,
  skeleton,
}: {
  query: { data: T | undefined; error: unknown; refetch: () => unknown }
  children: (data: T) => ReactNode
  skeleton?: ReactNode
}) {
  if (query.data !== undefined) return children(query.data)
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} className="m-4" />
  return skeleton ?? <SkeletonRows />
}
