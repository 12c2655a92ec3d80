import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, request } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied } from '@/api/session'
import type { User } from '@/api/types'
import { ConfirmDialog } from '@/components/confirm'
import { CopyId } from '@/components/copy'
import { EmptyState, Loaded, SkeletonRows } from '@/components/notices'
import { RoleBadge } from '@/components/role-badge'
import { RelativeTime } from '@/components/time'
import { PageHead, Section } from '@/layout/page'
import { allPages } from '@/lib/all-pages'
import { useShortcuts } from '@/lib/shortcuts'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import { toast } from '@/ui/toast'
import { changeCommands, deleteCommands } from './commands'
import { UserDialog } from './user-dialog'

/** The list of the users of the tenant. */
export function Page() {
  const denied = useDenied('admin')
  const [edited, setEdited] = useState<User | 'new' | null>(null)
  useShortcuts('Users', [{ keys: 'n', label: 'New user', run: () => denied === undefined && setEdited('new') }])
  return (
    <>
      <PageHead
        title="Users"
        name="Users"
        detail="The people of this tenant. The role limits their keys and their sign-in."
        actions={
          <Button look="primary" icon="plus" why={denied} onClick={() => setEdited('new')}>
            New user
          </Button>
        }
      />
      <div className="min-w-0 px-4 pb-8 lg:px-6">
        {denied === undefined ? (
          <UserList onEdit={setEdited} />
        ) : (
          <Section title="Users">
            <EmptyState icon="user" title="Users are for admins">
              {denied}
            </EmptyState>
          </Section>
        )}
      </div>
      <UserDialog user={edited} onClose={() => setEdited(null)} />
    </>
  )
}

function UserList({ onEdit }: { onEdit: (user: User) => void }) {
  const query = useQuery({
    queryKey: keys.users,
    queryFn: ({ signal }) =>
      allPages<User>(cursor =>
        api.get('/v1/users', { query: { limit: 200, ...(cursor === undefined ? {} : { cursor }) }, signal }),
      ),
  })
  const [switched, setSwitched] = useState<User | null>(null)
  const [deleted, setDeleted] = useState<User | null>(null)
  const count = query.data?.items.length ?? 0
  return (
    <Section title={<>Users {query.data !== undefined && <span className="font-normal text-ink-3">{count}</span>}</>}>
      <Loaded query={query} skeleton={<SkeletonRows rows={4} height={57} />}>
        {found =>
          found.items.length === 0 ? (
            <EmptyState
              icon="user"
              title="No users yet"
              command="timeball users create anna --role editor --email anna@example.org"
            >
              A user owns jobs and keys. Users of an identity provider are listed after their first sign-in.
            </EmptyState>
          ) : (
            <ul className="divide-y">
              {found.items.map(user => (
                <UserRow
                  key={user.userId}
                  user={user}
                  onEdit={() => onEdit(user)}
                  onSwitch={() => setSwitched(user)}
                  onDelete={() => setDeleted(user)}
                />
              ))}
            </ul>
          )
        }
      </Loaded>
      {query.data?.more === true && <p className="px-4 py-2 text-ink-3 text-xs">The first {plural(count, 'user')}.</p>}
      <SwitchUser user={switched} onClose={() => setSwitched(null)} />
      <DeleteUser user={deleted} onClose={() => setDeleted(null)} />
    </Section>
  )
}

function UserRow({
  user,
  onEdit,
  onSwitch,
  onDelete,
}: {
  user: User
  onEdit: () => void
  onSwitch: () => void
  onDelete: () => void
}) {
  const isDisabled = user.state === 'disabled'
  return (
    <li className={cx('flex min-h-14 flex-wrap items-center gap-3 px-4 py-2 text-sm', isDisabled && 'bg-sunken')}>
      <div className="min-w-48 flex-1">
        <p className="flex min-w-0 flex-wrap items-center gap-x-2">
          <span className={cx('bidi-plain min-w-0 truncate font-medium', isDisabled && 'text-ink-2')}>
            {user.name || user.userId}
          </span>
          <RoleBadge role={user.role} />
          {isDisabled && <span className="text-2xs text-ink-2">disabled</span>}
        </p>
        <p className="flex min-w-0 flex-wrap items-center gap-x-3 text-ink-2 text-xs">
          <CopyId id={user.userId} />
          {user.email !== '' && <span className="bidi-plain min-w-0 truncate">{user.email}</span>}
          {user.lastSeenAt === null ? (
            <span>not seen yet</span>
          ) : (
            <span>
              seen <RelativeTime at={user.lastSeenAt} />
            </span>
          )}
        </p>
      </div>
      <div className="flex items-center gap-2">
        <Button small onClick={onEdit}>
          Change
        </Button>
        <Button small onClick={onSwitch}>
          {isDisabled ? 'Enable' : 'Disable'}
        </Button>
        <Button small onClick={onDelete}>
          Delete
        </Button>
      </div>
    </li>
  )
}

function SwitchUser({ user, onClose }: { user: User | null; onClose: () => void }) {
  const client = useQueryClient()
  const state = user?.state === 'disabled' ? 'active' : 'disabled'
  const name = user === null ? '' : user.name || user.userId
  const change = async () => {
    if (user === null) return
    await request<User>('PATCH', `/v1/users/${encodeURIComponent(user.userId)}`, { body: { state } })
    await client.invalidateQueries({ queryKey: keys.users })
    toast.done(state === 'active' ? `Enabled ${name}` : `Disabled ${name}`)
  }
  return (
    <ConfirmDialog
      open={user !== null}
      onClose={onClose}
      title={state === 'active' ? `Enable ${name}?` : `Disable ${name}?`}
      action={state === 'active' ? 'Enable user' : 'Disable user'}
      danger={state === 'disabled'}
      onConfirm={change}
      {...(user === null ? {} : { commands: () => changeCommands(user.userId, { state }) })}
    >
      <p>
        {state === 'active'
          ? 'The keys, tokens and sessions of the user are accepted again within 3 seconds.'
          : 'The keys, tokens and sessions of the user are refused within 3 seconds. Its jobs keep running.'}
      </p>
    </ConfirmDialog>
  )
}

function DeleteUser({ user, onClose }: { user: User | null; onClose: () => void }) {
  const client = useQueryClient()
  const name = user === null ? '' : user.name || user.userId
  const remove = async () => {
    if (user === null) return
    await api.delete('/v1/users/{userId}', { path: { userId: user.userId } })
    await client.invalidateQueries({ queryKey: keys.users })
    toast.done(`Deleted ${name}`)
  }
  return (
    <ConfirmDialog
      open={user !== null}
      onClose={onClose}
      title={`Delete ${name}?`}
      action="Delete user"
      danger
      onConfirm={remove}
      {...(user === null ? {} : { commands: () => deleteCommands(user.userId) })}
    >
      <p>Its keys are revoked. Its jobs stay, and keep its id.</p>
    </ConfirmDialog>
  )
}
