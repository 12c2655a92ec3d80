import * as Radix from '@radix-ui/react-dialog'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useDeferredValue, useEffect, useId, useState } from 'react'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import type { Job, Page } from '@/api/types'
import { StateIcon } from '@/components/state'
import { theme, zone } from '@/lib/settings'
import { useShortcutGroups } from '@/lib/shortcuts'
import { cx } from '@/ui/cx'
import { returnFocus } from '@/ui/focus'
import { Icon, type IconName } from '@/ui/icon'
import { PAGES } from './navigation'
import { Keys } from './shortcut-list'

type Entry = {
  id: string
  group: string
  label: string
  icon: IconName
  detail?: string
  keys?: string
  run: () => void
  job?: Job
}

/** The command palette. It finds jobs by name, runs and jobs by id, pages and actions. */
export function Palette({ open, onClose, onHelp }: { open: boolean; onClose: () => void; onHelp: () => void }) {
  return (
    <Radix.Root open={open} onOpenChange={next => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 animate-fade bg-ink/35 dark:bg-sunken/70" />
        <Radix.Content
          aria-describedby={undefined}
          onCloseAutoFocus={returnFocus}
          className="fixed top-[10vh] left-1/2 z-50 w-[calc(100vw-1.5rem)] max-w-xl -translate-x-1/2 overflow-hidden rounded-lg border border-line bg-surface shadow-pop"
        >
          <Radix.Title className="sr-only">Find anything</Radix.Title>
          <Finder onClose={onClose} onHelp={onHelp} />
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

function Finder({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const [text, setText] = useState('')
  const [index, setIndex] = useState(0)
  const entries = useEntries(useDeferredValue(text.trim()), onHelp)
  const listId = useId()
  const chosen = Math.min(index, entries.length - 1)
  useEffect(() => {
    document.getElementById(`${listId}-${chosen}`)?.scrollIntoView({ block: 'nearest' })
  }, [chosen, listId])

  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return
    onClose()
    entry.run()
  }
  const onKeyDown = (event: React.KeyboardEvent) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (step !== 0 && entries.length > 0) {
      event.preventDefault()
      setIndex((chosen + step + entries.length) % entries.length)
    } else if (event.key === 'Enter') {
      event.preventDefault()
      run(entries[chosen])
    }
  }

  return (
    <>
      <div className="flex items-center gap-2.5 border-b px-4">
        <Icon name="search" className="text-ink-3" />
        <input
          value={text}
          onChange={event => {
            setText(event.target.value)
            setIndex(0)
          }}
          onKeyDown={onKeyDown}
          placeholder="A job, a run id, a page, an action"
          aria-label="Find"
          role="combobox"
          aria-expanded="true"
          aria-controls={listId}
          aria-activedescendant={entries.length > 0 ? `${listId}-${chosen}` : undefined}
          autoComplete="off"
          spellCheck={false}
          className="h-12 w-full bg-transparent text-lg outline-none"
        />
      </div>
      <div id={listId} role="listbox" aria-label="Found" className="max-h-[52vh] overflow-auto p-1.5">
        {entries.length === 0 && <p className="px-3 py-6 text-center text-ink-3 text-sm">Nothing has this name.</p>}
        {entries.map((entry, at) => (
          <div key={entry.id}>
            {entries[at - 1]?.group !== entry.group && <p className="label px-2.5 pt-2 pb-1">{entry.group}</p>}
            <div
              id={`${listId}-${at}`}
              role="option"
              tabIndex={-1}
              aria-selected={at === chosen}
              onPointerMove={() => setIndex(at)}
              onClick={() => run(entry)}
              onKeyDown={onKeyDown}
              className={cx(
                'flex h-9 cursor-pointer items-center gap-2.5 rounded-md px-2.5 text-sm',
                at === chosen && 'bg-accent-soft',
              )}
            >
              {entry.job === undefined ? (
                <Icon name={entry.icon} className="shrink-0 text-ink-3" />
              ) : (
                <StateIcon job={entry.job.status} size={16} />
              )}
              <span className="bidi-plain truncate">{entry.label}</span>
              {entry.detail !== undefined && <span className="truncate text-ink-3 text-xs">{entry.detail}</span>}
              <span className="flex-1" />
              {entry.keys !== undefined && <Keys keys={entry.keys} />}
            </div>
          </div>
        ))}
      </div>
    </>
  )
}

const MAX_FOUND_JOBS = 8

function useEntries(text: string, onHelp: () => void): Entry[] {
  const navigate = useNavigate()
  const groups = useShortcutGroups()
  const jobs = useQuery({
    queryKey: keys.jobs({ q: text, limit: MAX_FOUND_JOBS, palette: true }),
    queryFn: ({ signal }) =>
      request<Page<Job>>('GET', '/v1/jobs', { signal, query: { q: text, limit: MAX_FOUND_JOBS } }),
    enabled: text.length > 0,
    staleTime: 10_000,
    placeholderData: previous => previous,
  })

  const entries: Entry[] = []
  if (/^r_\w+$/.test(text))
    entries.push({
      id: 'run',
      group: 'Go to',
      label: `Run ${text}`,
      icon: 'runs',
      run: () => void navigate({ to: '/runs/$runId', params: { runId: text } }),
    })
  if (/^j_\w+$/.test(text))
    entries.push({
      id: 'job',
      group: 'Go to',
      label: `Job ${text}`,
      icon: 'jobs',
      run: () => void navigate({ to: '/jobs/$jobId', params: { jobId: text } }),
    })
  if (text.length > 0)
    for (const job of jobs.data?.items ?? [])
      entries.push({
        id: job.jobId,
        group: 'Jobs',
        label: job.name || job.jobId,
        detail: job.jobId,
        icon: 'jobs',
        job,
        run: () => void navigate({ to: '/jobs/$jobId', params: { jobId: job.jobId } }),
      })

  const actions: Entry[] = [
    {
      id: 'new-job',
      group: 'Actions',
      label: 'New job',
      icon: 'plus',
      run: () => void navigate({ to: '/jobs/new', search: {} }),
    },
    ...groups
      .filter(group => group.name !== 'Go to' && group.name !== 'Everywhere' && !group.name.endsWith(': list'))
      .flatMap(group =>
        group.shortcuts.map(shortcut => ({
          id: `${group.id}-${shortcut.keys}`,
          group: 'Actions',
          label: shortcut.label,
          icon: 'play' as const,
          keys: shortcut.keys,
          run: shortcut.run,
        })),
      ),
    {
      id: 'theme',
      group: 'Actions',
      label: 'Switch between light and dark',
      icon: 'moon',
      run: () => theme.set(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'),
    },
    {
      id: 'zone',
      group: 'Actions',
      label: zone.get() === 'UTC' ? 'Show local times' : 'Show times in UTC',
      icon: 'globe',
      run: () => zone.set(zone.get() === 'UTC' ? 'local' : 'UTC'),
    },
    { id: 'keys', group: 'Actions', label: 'Show the keys', icon: 'help', keys: '?', run: onHelp },
  ]
  const pages = PAGES.map(
    (page): Entry => ({
      id: page.to,
      group: 'Pages',
      label: page.label,
      icon: page.icon,
      keys: `g ${page.key}`,
      run: () => void navigate({ to: page.to }),
    }),
  )
  const wanted = text.toLowerCase()
  const fits = (entry: Entry) => wanted === '' || entry.label.toLowerCase().includes(wanted)
  return [...entries, ...pages.filter(fits), ...actions.filter(fits)]
}
