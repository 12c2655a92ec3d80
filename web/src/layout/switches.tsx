import { useNavigate } from '@tanstack/react-router'
import { enter, leave } from '@/api/account'
import { request } from '@/api/client'
import { useMe } from '@/api/session'
import { useStreamState } from '@/events/hub'
import type { StreamState } from '@/events/types'
import { theme, zone } from '@/lib/settings'
import { zoneName } from '@/lib/time'
import { Button, IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Menu, MenuChoice, MenuItem, MenuLabel, MenuLine } from '@/ui/menu'
import { toast } from '@/ui/toast'
import { Tooltip } from '@/ui/tooltip'

const STREAM: Record<StreamState, { label: string; text: string; dot: string }> = {
  connecting: { label: 'Connecting', text: 'Connecting to the event stream.', dot: 'border border-ink-3' },
  live: { label: 'Live', text: 'Changes appear on this page as they happen.', dot: 'bg-ok' },
  waiting: {
    label: 'Offline',
    text: 'The server does not answer. The page tries again by itself and keeps what it shows.',
    dot: 'bg-bad',
  },
  polling: {
    label: 'Polling',
    text: 'The server sends no events. The page reads again every few seconds.',
    dot: 'bg-late',
  },
  denied: { label: 'Signed out', text: 'Sign in to see changes as they happen.', dot: 'bg-bad' },
}

/** Shows whether this page receives events. It has a text only if the page does not. */
export function StreamMark() {
  const state = useStreamState()
  const look = STREAM[state]
  return (
    <Tooltip text={look.text}>
      <span role="status" className="flex h-8 items-center gap-1.5 px-2 text-ink-2 text-xs" tabIndex={0}>
        <span aria-hidden="true" className={cx('size-2 rounded-full', look.dot)} />
        <span className={cx(state === 'live' && 'sr-only lg:not-sr-only')}>{look.label}</span>
      </span>
    </Tooltip>
  )
}

export function ThemeMenu() {
  const chosen = theme.use()
  const icon = chosen === 'light' ? 'sun' : chosen === 'dark' ? 'moon' : 'monitor'
  return (
    <Menu trigger={<IconButton label="Theme" icon={icon} />}>
      <MenuLabel>Theme</MenuLabel>
      <MenuChoice
        value={chosen}
        onChange={theme.set}
        options={[
          { value: 'light', label: 'Light', icon: 'sun' },
          { value: 'dark', label: 'Dark', icon: 'moon' },
          { value: 'system', label: 'As the system', icon: 'monitor' },
        ]}
      />
    </Menu>
  )
}

/** The menu that chooses the time zone in which times are shown. */
export function ZoneMenu() {
  const chosen = zone.use()
  const options = [
    { value: 'local', label: `Here: ${zoneName('local')}` },
    { value: 'UTC', label: 'UTC' },
    ...(chosen === 'local' || chosen === 'UTC' ? [] : [{ value: chosen, label: chosen }]),
  ]
  return (
    <Menu
      trigger={
        <Button look="quiet" icon="globe" className="px-2">
          <span className="sr-only">Time zone: </span>
          <span className="hidden text-xs md:inline">{chosen === 'local' ? 'Local' : chosen}</span>
        </Button>
      }
    >
      <MenuLabel>Show times in</MenuLabel>
      <MenuChoice value={chosen} onChange={zone.set} options={options} />
    </Menu>
  )
}

export function AccountMenu() {
  const me = useMe()
  const navigate = useNavigate()
  const signOut = async () => {
    try {
      const { providerUrl } = await request<{ providerUrl: string | null }>('POST', '/v1/sign-out')
      if (providerUrl === null) enter('/sign-in')
      else leave(providerUrl)
    } catch (error) {
      toast.error('Could not sign out', error)
    }
  }
  return (
    <Menu trigger={<IconButton label="Account" icon="user" />}>
      <div className="max-w-64 px-2 py-1.5 text-xs">
        <p className="truncate font-medium text-sm">{me.data?.name ?? 'Signed in'}</p>
        {me.data !== undefined && (
          <>
            <p className="text-ink-2">
              Role {me.data.role}, tenant {me.data.tenant}
            </p>
            <p className="text-ink-3">
              Timeball {me.data.server.version} on {me.data.server.store === 'sqlite' ? 'SQLite' : 'PostgreSQL'}
            </p>
          </>
        )}
      </div>
      <MenuLine />
      <MenuItem icon="keys" onSelect={() => void navigate({ to: '/keys' })}>
        Keys and sessions
      </MenuItem>
      <MenuItem icon="book" onSelect={() => window.open(new URL('docs', document.baseURI), '_blank', 'noopener')}>
        API description
      </MenuItem>
      <MenuLine />
      <MenuItem icon="signout" onSelect={() => void signOut()}>
        Sign out
      </MenuItem>
    </Menu>
  )
}
