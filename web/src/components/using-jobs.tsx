import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { JobRow } from '@/api/types'
import { Section } from '@/layout/page'
import { plural } from '@/lib/time'
import { ScheduleText } from '@/pages/jobs/schedule'
import { Button } from '@/ui/button'
import { Segments } from '@/ui/field'
import { ErrorNotice, SkeletonRows } from './notices'
import { RowLink } from './row-link'
import { StateIcon } from './state'
import { Countdown } from './time'

const PAGE_SIZE = 50

/** The jobs that refer to a resource by its name. Ended jobs are shown on request. */
export function UsingJobs({
  filter,
  nothing,
  action,
}: {
  filter: { calendar: string } | { taskId: string }
  nothing: string
  action?: React.ReactNode
}) {
  const [which, setWhich] = useState<'live' | 'all'>('live')
  const wanted = { ...filter, ...(which === 'live' ? { status: 'scheduled,paused' } : {}), limit: PAGE_SIZE }
  const query = useInfiniteQuery({
    queryKey: keys.jobs({ using: wanted }),
    queryFn: ({ pageParam, signal }) =>
      api.get('/v1/jobs', { query: { ...wanted, ...(pageParam === '' ? {} : { cursor: pageParam }) }, signal }),
    initialPageParam: '',
    getNextPageParam: page => page.nextCursor,
  })
  const jobs: JobRow[] = query.data?.pages.flatMap(page => page.items) ?? []
  return (
    <Section
      title={
        <>
          Jobs that use it{' '}
          {query.data !== undefined && (
            <span className="font-normal text-ink-3">
              {jobs.length}
              {query.hasNextPage && '+'}
            </span>
          )}
        </>
      }
      aside={
        <Segments
          label="Jobs"
          value={which}
          onChange={setWhich}
          options={[
            { value: 'live', label: 'Live' },
            { value: 'all', label: 'All' },
          ]}
        />
      }
    >
      {query.error !== null && query.data === undefined ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} className="m-3" />
      ) : query.data === undefined ? (
        <SkeletonRows rows={3} />
      ) : jobs.length === 0 && !query.hasNextPage ? (
        <div className="grid justify-items-start gap-2 px-4 py-4 text-ink-2 text-sm">
          <p>{nothing}</p>
          {action}
        </div>
      ) : (
        <ul className="divide-y">
          {jobs.map(job => (
            <li key={job.jobId} className="flex min-h-9 min-w-0 items-center gap-2 px-4 py-1.5 text-sm hover:bg-hover">
              <StateIcon job={job.status} />
              <RowLink
                to={`jobs/${job.jobId}`}
                className="bidi-plain min-w-0 flex-1 truncate font-medium hover:text-accent hover:underline"
              >
                {job.name || job.jobId}
              </RowLink>
              <span className="hidden min-w-0 max-w-[45%] truncate text-ink-2 text-xs sm:block">
                <ScheduleText job={job} />
              </span>
              <span className="w-20 shrink-0 text-right text-xs">
                {job.status === 'paused' ? 'paused' : <Countdown at={job.nextFireAt} />}
              </span>
            </li>
          ))}
        </ul>
      )}
      {query.hasNextPage && (
        <Button
          small
          look="quiet"
          className="m-2"
          busy={query.isFetchingNextPage}
          onClick={() => void query.fetchNextPage()}
        >
          Show more after {plural(jobs.length, 'job')}
        </Button>
      )}
    </Section>
  )
}
