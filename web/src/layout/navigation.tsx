import { Link } from '@tanstack/react-router'
import { cx } from '@/ui/cx'
import { Icon, type IconName } from '@/ui/icon'

/** The pages in the order of the navigation. `key` is the second key of the shortcut, after `g`. */
export const PAGES = [
  { to: '/', label: 'Overview', icon: 'overview', key: 'o', group: 'Watch' },
  { to: '/jobs', label: 'Jobs', icon: 'jobs', key: 'j', group: 'Watch' },
  { to: '/runs', label: 'Runs', icon: 'runs', key: 'r', group: 'Watch' },
  { to: '/workflows', label: 'Workflows', icon: 'workflows', key: 'w', group: 'Watch' },
  { to: '/dead-letters', label: 'Dead letters', icon: 'dead', key: 'd', group: 'Watch' },
  { to: '/calendars', label: 'Calendars', icon: 'calendar', key: 'c', group: 'Plan' },
  { to: '/backfills', label: 'Backfills', icon: 'backfill', key: 'b', group: 'Plan' },
  { to: '/forecast', label: 'Forecast', icon: 'forecast', key: 'f', group: 'Plan' },
  { to: '/workers', label: 'Workers', icon: 'workers', key: 'k', group: 'Operate' },
  { to: '/tasks', label: 'Tasks', icon: 'tasks', key: 't', group: 'Operate' },
  { to: '/keys', label: 'Keys', icon: 'keys', key: 'y', group: 'Manage' },
  { to: '/users', label: 'Users', icon: 'user', key: 'u', group: 'Manage' },
  { to: '/usage', label: 'Usage', icon: 'sum', key: 'e', group: 'Manage' },
  { to: '/tenants', label: 'Tenants', icon: 'globe', key: 'n', group: 'Manage' },
  { to: '/audit-log', label: 'Audit log', icon: 'book', key: 'a', group: 'Manage' },
] as const satisfies readonly { to: string; label: string; icon: IconName; key: string; group: string }[]

const GROUPS = ['Watch', 'Plan', 'Operate', 'Manage'] as const

export function Navigation({ onChoose, slim }: { onChoose?: () => void; slim: boolean }) {
  return (
    <nav aria-label="Pages" className="grid gap-4 px-2 py-3">
      {GROUPS.map(group => (
        <div key={group} className="grid gap-px">
          <p className={cx('label px-2 pb-1', slim && 'sr-only')}>{group}</p>
          {PAGES.filter(page => page.group === group).map(page => (
            <Link
              key={page.to}
              to={page.to}
              onClick={onChoose}
              activeOptions={{ exact: page.to === '/', includeSearch: false }}
              title={slim ? page.label : undefined}
              className="group flex h-8 items-center gap-2.5 rounded-md px-2 text-ink-2 text-sm hover:bg-hover hover:text-ink data-[status=active]:bg-hover data-[status=active]:font-medium data-[status=active]:text-ink"
            >
              <Icon name={page.icon} className="shrink-0 text-ink-3 group-data-[status=active]:text-accent" />
              <span className={cx('flex-1', slim && 'sr-only')}>{page.label}</span>
            </Link>
          ))}
        </div>
      ))}
    </nav>
  )
}
