import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { ErrorNotice, SkeletonRows } from '@/components/notices'
import { PageHead, Section } from '@/layout/page'
import { useShortcuts } from '@/lib/shortcuts'
import { IconButton } from '@/ui/button'
import { Input, Segments } from '@/ui/field'
import { AttentionList } from './attention'
import { Figures } from './figures'
import { NowLine } from './now-line/now-line'
import { LANES, type OverviewSearch, WINDOWS } from './search'
import { Trends } from './trends'
import { UpNext } from './up-next'

const route = getRouteApi('/shell/')

const REFRESH_MS = 30_000

/** The start page: the state of the system, the coming fires, and the items that need attention. */
export function Page() {
  const { window = '1h', by = 'auto', q, view } = route.useSearch()
  const navigate = route.useNavigate()
  const set = (change: OverviewSearch) => void navigate({ search: before => ({ ...before, ...change }), replace: true })
  const stats = useQuery({
    queryKey: keys.stats(window),
    queryFn: ({ signal }) => api.get('/v1/stats', { signal, query: { window } }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  })
  useShortcuts('Overview', [
    ...WINDOWS.map((choice, at) => ({
      keys: String(at + 1),
      label: `Show ${choice}`,
      run: () => set({ window: choice }),
    })),
    {
      keys: 't',
      label: 'Now line as table or picture',
      run: () => set({ view: view === 'table' ? undefined : 'table' }),
    },
  ])

  return (
    <>
      <PageHead
        title="Overview"
        name="Overview"
        actions={
          <Segments
            label="Window"
            value={window}
            onChange={choice => set({ window: choice === '1h' ? undefined : choice })}
            options={[
              { value: '5m', label: '5 min' },
              { value: '1h', label: '1 hour' },
              { value: '24h', label: '24 hours' },
            ]}
          />
        }
      />
      <div className="grid min-w-0 gap-4 px-4 pb-6 lg:px-6">
        {stats.error && stats.data === undefined ? (
          <ErrorNotice error={stats.error} onRetry={() => void stats.refetch()} />
        ) : (
          <Figures stats={stats.data} />
        )}
        <div className="grid min-w-0 gap-4 xl:grid-cols-[minmax(0,1fr)_20rem] 3xl:grid-cols-[minmax(0,1fr)_26rem]">
          <div className="grid min-w-0 content-start gap-4">
            <Section
              title="Now"
              className="overflow-clip"
              aside={
                <>
                  <LaneFilter value={q} onChange={value => set({ q: value })} />
                  <div className="hidden sm:block">
                    <Segments
                      label="Lanes"
                      value={by}
                      onChange={choice => set({ by: choice === 'auto' ? undefined : choice })}
                      options={LANES.map(value => ({ value, label: NAMES[value] }))}
                    />
                  </div>
                  <IconButton
                    label={view === 'table' ? 'Show as picture' : 'Show as table'}
                    icon={view === 'table' ? 'overview' : 'table'}
                    aria-pressed={view === 'table'}
                    onClick={() => set({ view: view === 'table' ? undefined : 'table' })}
                  />
                </>
              }
            >
              <NowLine window={window} by={by} q={q} asTable={view === 'table'} />
            </Section>
            {stats.data !== undefined && <Trends stats={stats.data} />}
          </div>
          <div className="grid min-w-0 content-start gap-4 md:grid-cols-2 xl:grid-cols-1">
            <Section title="Needs attention">
              {stats.data === undefined ? <SkeletonRows rows={2} /> : <AttentionList items={stats.data.attention} />}
            </Section>
            <Section title="Up next">
              {stats.data === undefined ? <SkeletonRows rows={5} /> : <UpNext items={stats.data.upNext} />}
            </Section>
          </div>
        </div>
      </div>
    </>
  )
}

const NAMES = { auto: 'Auto', job: 'Jobs', tag: 'Tags' } as const

/** Filters the lanes by name. The filter is applied a moment after the last key. */
function LaneFilter({ value, onChange }: { value: string | undefined; onChange: (value: string | undefined) => void }) {
  const [text, setText] = useState(value ?? '')
  useEffect(() => {
    const wanted = text.trim() === '' ? undefined : text.trim()
    if (wanted === value) return
    const timer = setTimeout(() => onChange(wanted), 250)
    return () => clearTimeout(timer)
  }, [text, value, onChange])
  return (
    <Input
      data-search
      aria-label="Lanes with this name"
      placeholder="Filter lanes"
      value={text}
      onChange={event => setText(event.target.value)}
      className="h-7 w-28 sm:w-40"
    />
  )
}
