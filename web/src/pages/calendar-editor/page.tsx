import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { Calendar } from '@/api/types'
import { Loaded, Skeleton } from '@/components/notices'
import { PageHead } from '@/layout/page'
import { zoneName } from '@/lib/time'
import { Editor } from './editor'

/** Creates or edits a calendar. */
export function Page() {
  const { name } = useParams({ strict: false })
  if (name !== undefined) return <Existing key={name} name={name} />
  return <Editor key="new" initial={{ timezone: zoneName('local'), entries: [] }} />
}

function Existing({ name }: { name: string }) {
  const calendar = useQuery({
    queryKey: keys.calendars('one', name),
    queryFn: ({ signal }): Promise<Calendar> => api.get('/v1/calendars/{name}', { path: { name }, signal }),
  })
  return (
    <Loaded query={calendar} skeleton={<Waiting title={`Edit ${name}`} />}>
      {found => (
        <Editor
          name={found.name}
          version={found.version}
          initial={{
            timezone: found.timezone ?? 'UTC',
            ...(found.description ? { description: found.description } : {}),
            entries: found.entries,
          }}
        />
      )}
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
