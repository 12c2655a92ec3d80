import { useQuery } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { Origin, RunStatus } from '@/api/types'
import { FilterChips } from '@/components/filter-chips'
import { JobChip } from '@/components/job-chip'
import { RangeChip } from '@/components/range-chip'
import { StateBadge } from '@/components/state'
import { RUN_STATES, RUN_STATUSES } from '@/lib/states'
import { ORIGIN_NAMES } from './columns'
import { ORIGINS, type RunsSearch } from './search'

/** Fetches the name of a job for a filter that has its id. */
export function useJobName(jobId: string | undefined): string | undefined {
  const job = useQuery({
    queryKey: keys.job(jobId ?? '', 'name'),
    queryFn: ({ signal }) => api.get('/v1/jobs/{jobId}', { path: { jobId: jobId ?? '' }, signal }),
    enabled: jobId !== undefined,
    staleTime: 60_000,
    retry: false,
  })
  return jobId === undefined ? undefined : (job.data?.name ?? jobId)
}

export function RunFilters({ search, onChange }: { search: RunsSearch; onChange: (change: RunsSearch) => void }) {
  const jobName = useJobName(search.jobId)
  return (
    <div className="-mx-4 flex items-center gap-1.5 overflow-x-auto px-4 py-0.5 sm:mx-0 sm:flex-wrap sm:px-0">
      <JobChip name={jobName} onChange={jobId => onChange({ jobId })} />
      <RangeChip startTime={search.startTime} endTime={search.endTime} onChange={onChange} />
      <FilterChips
        filters={[
          {
            kind: 'many',
            name: 'status',
            label: 'Status',
            values: search.status ?? [],
            options: RUN_STATUSES.map(status => ({
              value: status,
              label: <StateBadge run={status} />,
              text: RUN_STATES[status].label,
            })),
            onChange: values => onChange({ status: values.length === 0 ? undefined : (values as RunStatus[]) }),
          },
          {
            kind: 'many',
            name: 'origin',
            label: 'Origin',
            values: search.origin ?? [],
            options: ORIGINS.map(origin => ({
              value: origin,
              label: ORIGIN_NAMES[origin],
              text: ORIGIN_NAMES[origin],
            })),
            onChange: values => onChange({ origin: values.length === 0 ? undefined : (values as Origin[]) }),
          },
          { kind: 'text', name: 'tag', label: 'Tag', value: search.tag, onChange: tag => onChange({ tag }) },
          {
            kind: 'text',
            name: 'userId',
            label: 'Owner',
            value: search.userId,
            onChange: userId => onChange({ userId }),
          },
          {
            kind: 'text',
            name: 'taskId',
            label: 'Task',
            value: search.taskId,
            hint: 'The id of a registered task.',
            onChange: taskId => onChange({ taskId }),
          },
          ...(search.fingerprint === undefined
            ? []
            : [
                {
                  kind: 'text' as const,
                  name: 'fingerprint',
                  label: 'Error',
                  value: search.fingerprint,
                  onChange: (fingerprint: string | undefined) => onChange({ fingerprint }),
                },
              ]),
        ]}
        onClear={() =>
          onChange({
            status: undefined,
            origin: undefined,
            tag: undefined,
            userId: undefined,
            taskId: undefined,
            fingerprint: undefined,
          })
        }
      />
    </div>
  )
}
