import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { User } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { ErrorNotice } from '@/components/notices'
import { RoleChoice } from '@/components/role-badge'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { toast } from '@/ui/toast'
import { changeCommands, changeOf, createCommands, type UserForm } from './commands'

const ROLES_OF_USERS = ['viewer', 'operator', 'editor', 'admin'] as const
const EMPTY: UserForm = { userId: '', role: 'viewer', name: '', email: '' }

/** Creates a user, or changes the given one. */
export function UserDialog({ user, onClose }: { user: User | 'new' | null; onClose: () => void }) {
  if (user === null) return null
  return <Form key={user === 'new' ? '' : user.userId} user={user === 'new' ? null : user} onClose={onClose} />
}

function Form({ user, onClose }: { user: User | null; onClose: () => void }) {
  const [form, setForm] = useState<UserForm>(user ?? EMPTY)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const client = useQueryClient()
  const set = (change: Partial<UserForm>) => setForm(before => ({ ...before, ...change }))
  const save = async () => {
    setBusy(true)
    setError(null)
    try {
      if (user === null) {
        const { userId, role, name, email } = form
        await request<User>('POST', '/v1/users', { body: { userId, role, name, email } })
      } else {
        await request<User>('PATCH', `/v1/users/${encodeURIComponent(user.userId)}`, { body: changeOf(user, form) })
      }
      await client.invalidateQueries({ queryKey: keys.users })
      toast.done(user === null ? `Created ${form.userId}` : `Changed ${user.userId}`)
      onClose()
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  const at = (pointer: string) => (error instanceof ApiError ? error.at(pointer) : undefined)
  const placed = ['/userId', '/name', '/email'].some(pointer => at(pointer) !== undefined)
  const commands = () => (user === null ? createCommands(form) : changeCommands(user.userId, changeOf(user, form)))
  return (
    <Dialog
      open
      onClose={onClose}
      title={user === null ? 'New user' : `Change ${user.userId}`}
      footer={
        <>
          <CopyAs commands={commands} />
          <span className="flex-1" />
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" busy={busy} onClick={() => void save()}>
            {user === null ? 'Create user' : 'Save'}
          </Button>
        </>
      }
    >
      <form
        className="grid gap-4"
        onSubmit={event => {
          event.preventDefault()
          void save()
        }}
      >
        {user === null && (
          <Field label="Id" hint="Jobs name their user by it. It cannot be changed." error={at('/userId')}>
            {control => (
              <Input
                {...control}
                autoFocus
                maxLength={200}
                placeholder="anna"
                value={form.userId}
                onChange={event => set({ userId: event.target.value })}
              />
            )}
          </Field>
        )}
        <Field label="Name" error={at('/name')}>
          {control => (
            <Input
              {...control}
              maxLength={200}
              placeholder="Anna"
              value={form.name}
              onChange={event => set({ name: event.target.value })}
            />
          )}
        </Field>
        <Field label="E-mail address" hint="For notifications." error={at('/email')}>
          {control => (
            <Input
              {...control}
              type="email"
              placeholder="anna@example.org"
              value={form.email}
              onChange={event => set({ email: event.target.value })}
            />
          )}
        </Field>
        <RoleChoice roles={ROLES_OF_USERS} value={form.role} onChange={role => set({ role })} />
        {error !== null && !placed && <ErrorNotice error={error} />}
      </form>
    </Dialog>
  )
}
