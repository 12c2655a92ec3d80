import { keepPreviousData, type UseQueryResult, useQuery } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { CalendarEntry, CalendarPreview } from '@/api/types'
import type { Period } from '../job/ledger/periods'
import { type Closed, closedOf } from './closed'

export type CalendarBody = { timezone?: string | undefined; entries: readonly CalendarEntry[] }
/** The closed times of a period. If there are too many for one answer, `to` is the end of the returned ones. */
export type ClosedTimes = { closed: readonly Closed[]; to: number }

/** Fetches the closed times of a calendar, which may be unsaved, again after each change of its entries. */
export function useClosed(calendar: CalendarBody, period: Period, enabled = true): UseQueryResult<ClosedTimes> {
  const body = { timezone: calendar.timezone ?? 'UTC', entries: [...calendar.entries] }
  return useQuery({
    queryKey: keys.calendars('closed', body, period),
    queryFn: async ({ signal }): Promise<ClosedTimes> => {
      const range = { from: new Date(period.from).toISOString(), to: new Date(period.to).toISOString() }
      const answer: CalendarPreview = await api.post('/v1/calendars:preview', {
        body: { calendar: body, ...range },
        signal,
      })
      return { closed: closedOf(answer.closed), to: Date.parse(answer.to) }
    },
    placeholderData: keepPreviousData,
    staleTime: 300_000,
    retry: false,
    enabled,
  })
}
