import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import { type Filter, FilterChips } from '@/components/filter-chips'
import { EmptyState, Loaded, Skeleton } from '@/components/notices'
import { PageHead } from '@/layout/page'
import { useShortcuts } from '@/lib/shortcuts'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { toast } from '@/ui/toast'
import { countLetters, discardLater, refresh, retryRuns } from './actions'
import { BulkDialog, type BulkTarget } from './bulk-dialog'
import { useDiscards } from './discards'
import { EditDialog, type EditTarget } from './edit-dialog'
import { type Group, type GroupActions, GroupCard } from './group'
import { filterOf, type LettersSearch, lettersSearch } from './search'

const route = getRouteApi('/shell/dead-letters')

/** The dead letters, grouped by error. */
export function Page() {
  const search = lettersSearch(route.useSearch())
  const navigate = route.useNavigate()
  const client = useQueryClient()
  const denied = useDenied('run')
  const filter = filterOf(search)
  const [bulk, setBulk] = useState<BulkTarget | null>(null)
  const [edited, setEdited] = useState<EditTarget | null>(null)
  const pending = useDiscards()
  const set = (change: LettersSearch) => void navigate({ search: before => ({ ...before, ...change }), replace: true })
  const groups = useQuery({
    queryKey: keys.deadLetters('groups', filter),
    queryFn: ({ signal }) => api.get('/v1/dead-letters/groups', { query: { ...filter, limit: 200 }, signal }),
    placeholderData: keepPreviousData,
  })

  const actions: GroupActions = {
    retryAll: group => setBulk({ action: 'retry', fingerprint: group.fingerprint }),
    editAll: group =>
      setEdited({ exampleRunId: group.exampleRunId, count: group.count, fingerprint: group.fingerprint }),
    discardAll: group => void discardGroup(group),
    retryRun: run => void retryOne(run.runId),
    editRun: run => setEdited({ exampleRunId: run.runId, count: 1 }),
    discardRun: run => discardLater(client, { fingerprint: null, runIds: [run.runId], count: 1 }, filter, undefined),
  }
  const discardGroup = async (group: Group) => {
    try {
      const counted = await countLetters(filter, group.fingerprint)
      const what = { fingerprint: group.fingerprint, runIds: [], count: counted.matched }
      discardLater(client, what, filter, counted.createdBefore)
    } catch (error) {
      toast.error('The dead letters were not discarded', error)
    }
  }
  const retryOne = async (runId: string, edit?: object) => {
    try {
      const step = await retryRuns([runId], edit)
      if (step.error !== null) toast.error('The run was not retried', new Error(step.error))
      else toast.done('The run is queued again')
    } catch (error) {
      toast.error('The run was not retried', error)
    } finally {
      refresh(client)
    }
  }
  const retryEdited = async (target: EditTarget, edit: object) => {
    if (target.fingerprint !== undefined && target.count > 1)
      setBulk({ action: 'retry', fingerprint: target.fingerprint, edit })
    else {
      const step = await retryRuns([target.exampleRunId], edit)
      if (step.error !== null) throw new Error(step.error)
      toast.done('The run is queued again')
      refresh(client)
    }
  }
  useShortcuts('Dead letters', [
    { keys: 'Shift+R', label: 'Retry all', run: () => setBulk({ action: 'retry' }), hidden: true },
  ])

  const total = groups.data?.counted
  const filtered = Object.keys(filter).length > 0
  const hasSome = total !== undefined && total > 0
  return (
    <>
      <PageHead
        title="Dead letters"
        name="Dead letters"
        detail={
          hasSome ? (
            <>
              {plural(total, 'run')}
              {groups.data?.more ? ' or more' : ''} in {plural(groups.data?.items.length ?? 0, 'group')}
            </>
          ) : undefined
        }
        actions={
          hasSome && (
            <>
              <Button icon="retry" why={denied} onClick={() => setBulk({ action: 'retry' })}>
                {filtered ? 'Retry all that match' : 'Retry all'}
              </Button>
              <Button icon="trash" why={denied} onClick={() => setBulk({ action: 'discard' })}>
                {filtered ? 'Discard all that match' : 'Discard all'}
              </Button>
            </>
          )
        }
      >
        <div className="-mx-4 min-w-0 max-w-[100vw] overflow-x-auto px-4 py-0.5 sm:mx-0 sm:max-w-none sm:px-0">
          <FilterChips filters={filtersOf(search, set)} onClear={() => set({ ...NOTHING })} />
        </div>
      </PageHead>
      <div className="grid min-w-0 content-start gap-2 px-4 pb-8 lg:px-6">
        <Loaded query={groups} skeleton={<Waiting />}>
          {found =>
            found.items.length === 0 ? (
              filtered ? (
                <EmptyState icon="search" title="No dead letter matches the filter">
                  <Button small className="mt-2" onClick={() => set({ ...NOTHING })}>
                    Clear the filter
                  </Button>
                </EmptyState>
              ) : (
                <EmptyState icon="state-ok" title="No dead letters" command="timeball dead groups">
                  A run that fails and has no retries left comes here, together with others that failed in the same way.
                </EmptyState>
              )
            ) : (
              found.items.map(group => {
                const name = group.fingerprint
                return (
                  <GroupCard
                    key={name}
                    group={group}
                    open={search.group === name}
                    onToggle={() => set({ group: search.group === name ? undefined : name })}
                    filter={filter}
                    actions={actions}
                    pending={pending}
                  />
                )
              })
            )
          }
        </Loaded>
      </div>
      <BulkDialog target={bulk} filter={filter} onClose={() => setBulk(null)} />
      <EditDialog target={edited} filter={filter} onClose={() => setEdited(null)} onRetry={retryEdited} />
    </>
  )
}

const NOTHING: Record<keyof LettersSearch, undefined> = {
  jobId: undefined,
  tag: undefined,
  userId: undefined,
  taskId: undefined,
  startTime: undefined,
  endTime: undefined,
  group: undefined,
}

function filtersOf(search: LettersSearch, set: (change: LettersSearch) => void): Filter[] {
  const filter = (name: Exclude<keyof LettersSearch, 'group'>, label: string, placeholder: string): Filter => ({
    kind: 'text',
    name,
    label,
    value: search[name],
    placeholder,
    onChange: value => set({ [name]: value, group: undefined }),
  })
  return [
    filter('jobId', 'Job', 'j_…'),
    filter('tag', 'Tag', 'etl'),
    filter('userId', 'Owner', 'user'),
    filter('taskId', 'Task', 'registered task'),
    filter('startTime', 'Fired from', '2026-01-01T00:00:00Z'),
    filter('endTime', 'Fired until', '2026-01-02T00:00:00Z'),
  ]
}

function Waiting() {
  return (
    <>
      {[1, 2, 3].map(row => (
        <div key={row} className="panel px-4 py-3">
          <Skeleton className="h-12 w-full" />
        </div>
      ))}
    </>
  )
}
