import type { QueryClient } from '@tanstack/react-query'
import { request } from '@/api/client'
import type { components } from '@/api/schema'
import type { Page, Run } from '@/api/types'
import { plural } from '@/lib/time'
import { toast } from '@/ui/toast'
import type { BulkSource, Step } from './bulk'
import { type Discard, discards } from './discards'
import { type LettersFilter, selectionOf } from './search'

type Retried = components['schemas']['RetriedAnswer']
type Discarded = components['schemas']['DiscardedAnswer']
type Counted = components['schemas']['CountedAnswer']

export function refresh(client: QueryClient): void {
  for (const word of ['dead-letters', 'stats', 'runs']) void client.invalidateQueries({ queryKey: [word] })
}

export async function retryRuns(runIds: readonly string[], edit?: object): Promise<Step> {
  const answer = await request<Retried>('POST', '/v1/dead-letters:retry', {
    body: { runIds, ...(edit === undefined ? {} : { edit }) },
  })
  return stepOf(answer, answer.retried)
}

async function discardRuns(runIds: readonly string[]): Promise<Step> {
  const answer = await request<Discarded>('POST', '/v1/dead-letters:discard', { body: { runIds } })
  return stepOf(answer, answer.discarded)
}

function stepOf(answer: Retried | Discarded, changed: number): Step {
  const errors = answer.items?.flatMap(item => (item.error === undefined ? [] : [item.error.detail])) ?? []
  return { matched: answer.matched, changed, failed: errors.length, error: errors[0] ?? null }
}

/** Returns the current number of dead letters. The value `createdBefore` excludes later ones from the action. */
export async function countLetters(filter: LettersFilter, fingerprint?: string): Promise<Counted> {
  return request<Counted>('POST', '/v1/dead-letters:discard', {
    body: { filter: selectionOf(filter, fingerprint), dryRun: true },
  })
}

const PAGE_SIZE = 500

export function bulkSource(
  action: 'retry' | 'discard',
  filter: LettersFilter,
  fingerprint: string | undefined,
  createdBefore: string | undefined,
  edit?: object,
): BulkSource {
  return {
    nextIds: async cursor => {
      const query = { ...filter, fingerprint, limit: PAGE_SIZE, cursor: cursor ?? undefined }
      const page = await request<Page<Run>>('GET', '/v1/dead-letters', { query })
      const until = createdBefore === undefined ? Number.POSITIVE_INFINITY : Date.parse(createdBefore)
      const ids = page.items.filter(run => Date.parse(run.createdAt) <= until).map(run => run.runId)
      return { ids, cursor: page.nextCursor }
    },
    act: ids => (action === 'retry' ? retryRuns(ids, edit) : discardRuns(ids)),
  }
}

/** Discards dead letters after the undo window. `createdBefore` excludes those that are created in this window. */
export function discardLater(
  client: QueryClient,
  what: Pick<Discard, 'fingerprint' | 'runIds' | 'count'>,
  filter: LettersFilter,
  createdBefore: string | undefined,
): void {
  const send = async () => {
    try {
      const body =
        what.fingerprint === null
          ? { runIds: what.runIds }
          : { filter: { ...selectionOf(filter, what.fingerprint), createdBefore } }
      await request<Discarded>('POST', '/v1/dead-letters:discard', { body })
    } catch (error) {
      toast.error('The dead letters were not discarded', error)
    } finally {
      refresh(client)
      await client.invalidateQueries({ queryKey: ['dead-letters'] })
    }
  }
  const id = discards.add(what, send)
  toast.undo(`Discarding ${plural(what.count, 'dead letter')}`, () => discards.undo(id))
}
