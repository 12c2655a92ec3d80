import { useQuery } from '@tanstack/react-query'
import { useParams, useSearch } from '@tanstack/react-router'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { Job } from '@/api/types'
import { Loaded, Skeleton } from '@/components/notices'
import { PageHead } from '@/layout/page'
import { zoneName } from '@/lib/time'
import type { JobEditorSearch } from '@/searches'
import { EditorPage } from './editor-page'
import { cloneOf, documentOf, type JobDocument, NEW_JOB, NEW_WORKFLOW } from './model/document'

/** Creates or edits a job. A new job can begin as a copy of another one (`?from=j_…`). */
export function Page() {
  const { jobId } = useParams({ strict: false })
  const search: JobEditorSearch = useSearch({ strict: false })
  const source = search.from ?? search.clone
  if (jobId !== undefined) return <Existing key={jobId} jobId={jobId} mode="edit" />
  if (source !== undefined) return <Existing key={source} jobId={source} mode="clone" />
  return <EditorPage key={JSON.stringify(search)} initial={newJob(search)} />
}

function newJob({ template, task, calendar }: JobEditorSearch): JobDocument {
  return {
    name: '',
    ...(task !== undefined ? { taskId: task } : { task: template === 'workflow' ? NEW_WORKFLOW : NEW_JOB.task }),
    schedule: { type: 'cron', expression: '0 9 * * 1-5', timezone: zoneName('local') },
    ...(calendar === undefined ? {} : { calendars: [calendar] }),
  }
}

function Existing({ jobId, mode }: { jobId: string; mode: 'edit' | 'clone' }) {
  const job = useQuery({
    queryKey: keys.job(jobId, 'definition'),
    queryFn: ({ signal }): Promise<Job> => api.get('/v1/jobs/{jobId}', { path: { jobId }, signal }),
  })
  return (
    <Loaded query={job} skeleton={<Waiting title={mode === 'edit' ? 'Edit job' : 'New job'} />}>
      {found =>
        mode === 'edit' ? (
          <EditorPage initial={documentOf(found)} saved={found} />
        ) : (
          <EditorPage initial={cloneOf(documentOf(found))} clonedFrom={found.name || found.jobId} />
        )
      }
    </Loaded>
  )
}

function Waiting({ title }: { title: string }) {
  return (
    <>
      <PageHead title={title} name={title} />
      <div className="grid gap-4 px-4 lg:px-6 xl:grid-cols-2">
        <Skeleton className="h-96 w-full" />
        <Skeleton className="h-96 w-full" />
      </div>
    </>
  )
}
