import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { Job, Run } from '@/api/types'
import type { Series } from '@/components/chart'
import { LazyChart } from '@/components/lazy-chart'
import { Loaded, Skeleton } from '@/components/notices'
import { StateBadge } from '@/components/state'
import { Countdown, RelativeTime, Sentence, Time } from '@/components/time'
import { Section } from '@/layout/page'
import { duration, instant } from '@/lib/time'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'
import { fireRows } from './next-fires'
import { jobWords } from './words'

/** Fetches the description of the schedule from the server: in words, with the clock changes. */
export function usePreview(job: Job) {
  const { schedule, calendars, excluded, startAt, endAt, maxRuns, name } = job
  const body = {
    schedule,
    count: 20,
    name,
    ...(calendars === undefined ? {} : { calendars }),
    ...(excluded === undefined ? {} : { excluded }),
    ...(startAt === undefined ? {} : { startAt }),
    ...(endAt === undefined ? {} : { endAt }),
    ...(maxRuns === undefined ? {} : { maxRuns }),
  }
  return useQuery({
    // The key does not begin with `job`, because runs of the job do not change its schedule.
    queryKey: ['preview', body],
    queryFn: ({ signal }) => api.post('/v1/schedules:preview', { body: body as never, signal }),
    staleTime: 300_000,
    retry: false,
  })
}

export function WordsSection({ job }: { job: Job }) {
  const preview = usePreview(job)
  const starts = useQuery({
    queryKey: keys.job(job.jobId, 'slo'),
    queryFn: ({ signal }) => api.get('/v1/slo', { query: { jobId: job.jobId }, signal }),
    enabled: job.slo !== undefined,
    staleTime: 30_000,
  })
  const words = jobWords(job, preview.data?.description ?? null, starts.data)
  return (
    <Section title="Definition">
      {job.description !== '' && (
        <p className="bidi-plain border-b px-4 py-2.5 text-sm [overflow-wrap:anywhere]">{job.description}</p>
      )}
      <dl className="px-4 py-2 text-sm">
        {words.map(item => (
          <div key={item.label} className="grid grid-cols-[6rem_minmax(0,1fr)] gap-2 py-1">
            <dt className="text-ink-3">{item.label}</dt>
            <dd className="min-w-0 [overflow-wrap:anywhere]">
              <span className="bidi-plain">{item.text}</span>
              {item.code !== undefined && (
                <code className="bidi-plain mt-1 line-clamp-4 whitespace-pre-wrap [overflow-wrap:anywhere] rounded-sm bg-sunken px-1.5 py-0.5 font-mono text-xs">
                  {item.code.slice(0, 2000)}
                </code>
              )}
            </dd>
          </div>
        ))}
      </dl>
      {[...(job.warnings ?? []), ...(preview.data?.warnings ?? [])].map(warning => (
        <p key={warning} className="flex gap-2 border-t px-4 py-2 text-ink-2 text-xs">
          <Icon name="warning" size={14} className="mt-0.5 shrink-0 text-late" />
          {warning}
        </p>
      ))}
    </Section>
  )
}

const MARK_TEXT: Record<string, string> = {
  dst_gap: 'clock change: this time does not exist',
  dst_overlap: 'clock change: this time comes twice',
  excluded: 'left out: a calendar is closed',
  next_open: 'moved to the next open time',
}

export function NextFires({ job }: { job: Job }) {
  const preview = usePreview(job)
  const next = useQuery({
    queryKey: keys.job(job.jobId, 'next'),
    queryFn: ({ signal }) =>
      api.get('/v1/jobs/{jobId}/next', { path: { jobId: job.jobId }, query: { count: 10 }, signal }),
  })
  const marks = useMemo(() => {
    const found = new Map<number, { mark: string; note: string }>()
    for (const fire of preview.data?.fires ?? []) {
      const at = instant(fire.at)
      if (at !== null && fire.mark !== undefined) found.set(at, { mark: fire.mark, note: fire.note ?? '' })
    }
    return found
  }, [preview.data])
  return (
    <Section
      title="Next fires"
      aside={
        job.nextFireAt !== null && job.status === 'scheduled' ? (
          <span className="text-sm">
            <Countdown at={job.nextFireAt} className="font-semibold" />
          </span>
        ) : null
      }
    >
      <Loaded query={next} skeleton={<Skeleton className="m-4 h-64" />}>
        {found =>
          found.items.length === 0 ? (
            <p className="px-4 py-3 text-ink-2 text-sm">{found.detail === '' ? 'No more fires.' : found.detail}</p>
          ) : (
            <ol className="py-1.5 text-sm">
              {fireRows(found.items, job.schedule.timezone ?? null, marks).map(row =>
                row.kind === 'change' ? (
                  <li key={`change-${row.at}`} className="my-1 flex items-center gap-2 px-4 text-late text-xs">
                    <span className="h-px flex-1 bg-current opacity-40" />
                    <span className="text-ink-2">
                      clocks change: {row.before} → {row.after}
                    </span>
                    <span className="h-px flex-1 bg-current opacity-40" />
                  </li>
                ) : (
                  <li key={row.at} className="grid grid-cols-[minmax(0,1fr)_auto] gap-3 px-4 py-1">
                    <span className={cx(row.mark === 'excluded' && 'text-ink-3 line-through')}>
                      <Time at={row.at} />
                      {row.mark !== null && (
                        <span className="ml-2 inline-flex items-center gap-1 text-ink-2 text-xs">
                          <Icon name="warning" size={12} className="text-late" />
                          {row.note === '' ? (MARK_TEXT[row.mark] ?? row.mark) : row.note}
                        </span>
                      )}
                    </span>
                    <RelativeTime at={row.at} className="text-ink-3" />
                  </li>
                ),
              )}
            </ol>
          )
        }
      </Loaded>
    </Section>
  )
}

/** Explains the state of the job, and lists the last fires that were not on time. */
export function JobWhySection({ job }: { job: Job }) {
  const why = useQuery({
    queryKey: keys.job(job.jobId, 'why'),
    queryFn: ({ signal }) => api.get('/v1/jobs/{jobId}/why', { path: { jobId: job.jobId }, signal }),
  })
  return (
    <Section title="Why">
      <Loaded query={why} skeleton={<Skeleton className="m-4 h-10" />}>
        {found => (
          <div className="grid gap-2 p-4 text-sm">
            {(found.reasons.length === 0 ? [{ text: found.answer, unblocks: '' }] : found.reasons).map(
              (reason, index) => (
                <div key={index} className="min-w-0 [overflow-wrap:anywhere]">
                  <p className="bidi-plain">
                    <Sentence text={reason.text} />
                  </p>
                  {reason.unblocks !== '' && (
                    <p className="bidi-plain text-ink-2">
                      <Sentence text={reason.unblocks} />
                    </p>
                  )}
                </div>
              ),
            )}
            {found.run !== null && (
              <p className="bidi-plain text-ink-2 [overflow-wrap:anywhere]">
                <Link to="/runs/$runId" params={{ runId: found.run.runId }} className="text-accent underline">
                  Latest run
                </Link>
                : <Sentence text={found.run.answer} />
              </p>
            )}
            {found.exceptions.slice(0, 5).map(item => (
              <div key={item.fireTime} className="flex gap-2 text-xs">
                <StateBadge verdict={item.verdict} className="shrink-0" />
                <Time at={item.fireTime} className="shrink-0 text-ink-2" />
                <span className="bidi-plain truncate text-ink-3">
                  <Sentence text={item.reason} />
                </span>
              </div>
            ))}
          </div>
        )}
      </Loaded>
    </Section>
  )
}

/** A chart of the durations of the last runs. A click opens the run. */
export function DurationChart({ runs }: { runs: readonly Run[] }) {
  const navigate = useNavigate()
  const ended = useMemo(
    () =>
      runs
        .flatMap(run => {
          const from = instant(run.startTime)
          const to = instant(run.endTime)
          return from === null || to === null ? [] : [{ run, from, ms: Math.max(0, to - from) }]
        })
        .toSorted((a, b) => a.from - b.from),
    [runs],
  )
  const times = useMemo(() => ended.map(item => item.from), [ended])
  const series = useMemo((): Series[] => {
    const of = (failed: boolean) => ended.map(item => ((item.run.status === 'succeeded') === !failed ? item.ms : null))
    return [
      { label: 'Succeeded', color: 'ok', values: of(false), paths: 'points' },
      { label: 'Not succeeded', color: 'bad', values: of(true), paths: 'points' },
    ]
  }, [ended])
  const sorted = ended.map(item => item.ms).toSorted((a, b) => a - b)
  const median = sorted[Math.floor(sorted.length / 2)]
  const slowest = sorted.at(-1)
  return (
    <Section
      title="Durations"
      aside={
        median !== undefined && slowest !== undefined ? (
          <span className="text-ink-2 text-xs">
            median {duration(median)}, slowest {duration(slowest)}
          </span>
        ) : null
      }
    >
      {ended.length === 0 ? (
        <p className="px-4 py-10 text-center text-ink-3 text-sm">No run has ended yet.</p>
      ) : (
        <div className="px-2 py-2">
          <LazyChart
            height={176}
            times={times}
            series={series}
            format={duration}
            label={`Durations of the last ${ended.length} runs`}
            onPick={index => {
              const runId = ended[index]?.run.runId
              if (runId !== undefined) void navigate({ to: '/runs/$runId', params: { runId } })
            }}
          />
        </div>
      )}
    </Section>
  )
}
