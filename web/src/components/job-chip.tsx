import { useQuery } from '@tanstack/react-query'
import { useDeferredValue, useState } from 'react'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import type { Job, Page } from '@/api/types'
import { cx } from '@/ui/cx'
import { Input } from '@/ui/field'
import { Popover } from '@/ui/popover'
import { Chip } from './filter-chips'
import { Skeleton } from './notices'
import { StateIcon } from './state'

const MAX_FOUND = 10

/** A filter by job. The user searches by name and selects a job; the address stores its id. */
export function JobChip({
  name,
  onChange,
}: {
  name: string | undefined
  onChange: (jobId: string | undefined) => void
}) {
  const [open, setOpen] = useState(false)
  const choose = (jobId: string) => {
    onChange(jobId)
    setOpen(false)
  }
  return (
    <Popover
      label="Filter by job"
      open={open}
      onOpenChange={setOpen}
      trigger={<Chip label="Job" value={name ?? null} onClear={() => onChange(undefined)} />}
    >
      <JobFinder onChoose={choose} />
    </Popover>
  )
}

/** A field that finds jobs by name or id. */
export function JobFinder({ onChoose, className }: { onChoose: (jobId: string) => void; className?: string }) {
  const [text, setText] = useState('')
  const wanted = useDeferredValue(text.trim())
  const jobs = useQuery({
    queryKey: keys.jobs({ chip: true, q: wanted }),
    queryFn: ({ signal }) => request<Page<Job>>('GET', '/v1/jobs', { query: { q: wanted, limit: MAX_FOUND }, signal }),
    staleTime: 10_000,
    placeholderData: previous => previous,
  })
  return (
    <form
      className={cx('grid max-w-full gap-2', className ?? 'w-72')}
      onSubmit={event => {
        event.preventDefault()
        const [first] = jobs.data?.items ?? []
        if (wanted.startsWith('j_')) onChoose(wanted)
        else if (first !== undefined) onChoose(first.jobId)
      }}
    >
      <Input
        aria-label="Name or id of a job"
        placeholder="Name or id of a job"
        value={text}
        maxLength={200}
        onChange={event => setText(event.target.value)}
      />
      <ul className="max-h-72 overflow-auto">
        {jobs.data === undefined && <Skeleton className="h-8" />}
        {jobs.data?.items.map(job => (
          <li key={job.jobId}>
            <button
              type="button"
              onClick={() => onChoose(job.jobId)}
              className="flex h-8 w-full items-center gap-2 rounded-sm px-1.5 text-left text-sm hover:bg-hover"
            >
              <StateIcon job={job.status} />
              <span className="bidi-plain truncate">{job.name || job.jobId}</span>
            </button>
          </li>
        ))}
        {jobs.data?.items.length === 0 && <li className="px-1.5 py-2 text-ink-3 text-xs">No job has this name.</li>}
      </ul>
    </form>
  )
}
