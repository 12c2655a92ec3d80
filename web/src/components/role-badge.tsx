import type { ApiKey } from '@/api/types'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'

export const ROLES = {
  worker: { label: 'Worker', text: 'Takes runs and reports on them. It cannot read or change jobs.' },
  viewer: { label: 'Viewer', text: 'Reads jobs, runs and output.' },
  operator: { label: 'Operator', text: 'Also runs, cancels, retries, replays, pauses and resumes.' },
  editor: { label: 'Editor', text: 'Also defines jobs, workflows, tasks and calendars.' },
  admin: { label: 'Admin', text: 'Also manages the keys and the users of the tenant.' },
  system: { label: 'System', text: 'May do everything: also manages tenants, workers and the clock.' },
} as const
export type Role = keyof typeof ROLES

/** Shows a role, with its meaning as a title. */
export function RoleBadge({ role }: { role: ApiKey['role'] }) {
  return (
    <span
      title={ROLES[role].text}
      className={cx(
        'inline-flex items-center gap-1 rounded-sm border px-1.5 align-middle text-2xs',
        role === 'admin' || role === 'system' ? 'border-accent text-accent' : 'text-ink-2',
      )}
    >
      <Icon name={role === 'worker' ? 'workers' : 'keys'} size={12} />
      {ROLES[role].label}
    </span>
  )
}

/** A choice between roles, each with its meaning. */
export function RoleChoice({
  roles,
  value,
  onChange,
}: {
  roles: readonly Role[]
  value: Role
  onChange: (role: Role) => void
}) {
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 font-medium text-ink-2 text-xs">Role</legend>
      {roles.map(item => (
        <label
          key={item}
          className={cx(
            'flex items-start gap-2.5 rounded-md border px-3 py-2 text-sm',
            item === value && 'border-accent bg-accent-soft',
          )}
        >
          <input
            type="radio"
            name="role"
            checked={item === value}
            onChange={() => onChange(item)}
            className="mt-0.5 size-4 accent-accent"
          />
          <span>
            <span className="font-medium">{ROLES[item].label}</span>
            <span className="block text-ink-2 text-xs">{ROLES[item].text}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}
