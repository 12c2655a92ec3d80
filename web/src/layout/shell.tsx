import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { useFollowPermissions } from '@/api/session'
import { navigationOpen } from '@/lib/settings'
import { useShortcuts } from '@/lib/shortcuts'
import { IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Kbd } from '@/ui/field'
import { Icon } from '@/ui/icon'
import { Toasts } from '@/ui/toast'
import { TooltipProvider } from '@/ui/tooltip'
import { Navigation, PAGES } from './navigation'
import { Palette } from './palette'
import { ShortcutList } from './shortcut-list'
import { AccountMenu, StreamMark, ThemeMenu, ZoneMenu } from './switches'
import { TimeTips } from './time-tips'

/** The frame of every page: navigation on the left, a bar at the top, and the page. */
export function Shell() {
  const [palette, setPalette] = useState(false)
  const [help, setHelp] = useState(false)
  const [drawer, setDrawer] = useState(false)
  const wide = navigationOpen.use()
  const navigate = useNavigate()
  const path = useRouterState({ select: state => state.location.pathname })
  useFollowPermissions()
  useEffect(() => setDrawer(false), [path])

  useShortcuts('Everywhere', [
    { keys: 'Mod+k', label: 'Find jobs, runs, pages and actions', run: () => setPalette(true) },
    { keys: '/', label: 'Search this page, or find anything', run: () => focusSearch() || setPalette(true) },
    { keys: '?', label: 'Show the keys', run: () => setHelp(true) },
    { keys: '[', label: 'Fold the navigation', run: () => navigationOpen.set(!navigationOpen.get()) },
  ])
  useShortcuts(
    'Go to',
    PAGES.map(page => ({ keys: `g ${page.key}`, label: page.label, run: () => void navigate({ to: page.to }) })),
  )

  return (
    <TooltipProvider delayDuration={350} skipDelayDuration={200}>
      <a
        href={`${path}#main`}
        onClick={event => skip(event)}
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded-md focus:bg-accent focus:px-3 focus:py-1.5 focus:text-on-accent"
      >
        Skip to the page
      </a>
      <div className="print-flow grid h-dvh grid-rows-[auto_minmax(0,1fr)] md:grid-cols-[auto_minmax(0,1fr)]">
        <aside
          className={cx(
            'no-print row-span-2 hidden overflow-y-auto border-r bg-surface md:block',
            wide ? 'w-14 lg:w-52' : 'w-14',
          )}
        >
          <Link to="/" className="flex h-12 items-center gap-2.5 border-b px-4 font-semibold text-lg tracking-tight">
            <Ball />
            <span className={cx(wide ? 'sr-only lg:not-sr-only' : 'sr-only')}>Timeball</span>
          </Link>
          <div className="lg:hidden">
            <Navigation slim />
          </div>
          <div className="hidden lg:block">
            <Navigation slim={!wide} />
          </div>
        </aside>
        <header className="no-print flex h-12 min-w-0 items-center gap-1 border-b bg-surface px-2 md:px-3">
          <IconButton
            label="Pages"
            icon="menu"
            className="md:hidden"
            aria-expanded={drawer}
            onClick={() => setDrawer(!drawer)}
          />
          <button
            type="button"
            onClick={() => setPalette(true)}
            className="flex h-8 min-w-0 max-w-md flex-1 items-center gap-2 rounded-md border border-line-strong bg-sunken px-2.5 text-ink-3 text-sm hover:text-ink-2"
          >
            <Icon name="search" size={14} className="shrink-0" />
            <span className="flex-1 truncate text-left">Find jobs, runs, pages</span>
            <span className="hidden gap-0.5 sm:flex">
              <Kbd>{isApple() ? '⌘' : 'Ctrl'}</Kbd>
              <Kbd>K</Kbd>
            </span>
          </button>
          <span className="hidden flex-1 sm:block" />
          <StreamMark />
          <ZoneMenu />
          <ThemeMenu />
          <span className="hidden sm:block">
            <IconButton label="Keys" hint="?" icon="help" onClick={() => setHelp(true)} />
          </span>
          <AccountMenu />
        </header>
        <main id="main" tabIndex={-1} className="print-flow flex min-h-0 min-w-0 flex-col overflow-auto outline-none">
          <Outlet />
        </main>
        {drawer && (
          <div className="no-print fixed inset-0 top-12 z-30 animate-fade overflow-auto bg-surface md:hidden">
            <Navigation slim={false} onChoose={() => setDrawer(false)} />
          </div>
        )}
      </div>
      <Palette open={palette} onClose={() => setPalette(false)} onHelp={() => setHelp(true)} />
      <ShortcutList open={help} onClose={() => setHelp(false)} />
      <Toasts />
      <TimeTips />
    </TooltipProvider>
  )
}

/** The logo: a time ball on its mast. */
export function Ball({ size = 18 }: { size?: number }) {
  return (
    <svg aria-hidden="true" width={size} height={size} viewBox="0 0 18 18" className="shrink-0">
      <path d="M9 1v16M5 17h8" stroke="currentColor" strokeWidth={1.5} strokeLinecap="round" className="text-ink-3" />
      <circle cx={9} cy={9.5} r={4.25} className="fill-accent" />
    </svg>
  )
}

function skip(event: React.MouseEvent): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}

/** Focuses the search field of the page. Returns false if the page has none. */
function focusSearch(): boolean {
  const field = document.querySelector<HTMLInputElement>('[data-search]')
  field?.focus()
  field?.select()
  return field !== null
}

export function isApple(): boolean {
  return /Mac|iPhone|iPad/.test(navigator.userAgent)
}
