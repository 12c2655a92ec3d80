import { useQuery } from '@tanstack/react-query'
import { request } from '@/api/client'
import type { components } from '@/api/schema'
import type { CalendarEntry } from '@/api/types'
import { entryWords, kindOfEntry } from './words'

type Preview = components['schemas']['PreviewAnswer']

/** Describes an entry in a sentence. The server describes its cron expression. */
export function EntryWords({ entry, timezone }: { entry: CalendarEntry; timezone: string }) {
  const expression = kindOfEntry(entry) === 'windows' ? (entry.cron ?? '') : ''
  const query = useQuery({
    queryKey: ['preview', 'cron', expression, timezone],
    queryFn: ({ signal }) =>
      request<Preview>('POST', '/v1/schedules:preview', { body: { expression, timezone, count: 1 }, signal }),
    enabled: expression !== '',
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
  return <span>{entryWords(entry, query.data?.description ?? null)}</span>
}
