import type { User } from '@/api/types'
import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

export type UserForm = { userId: string; role: User['role']; name: string; email: string }
export type UserChange = Partial<Pick<User, 'name' | 'email' | 'role' | 'state'>>

/** Returns the fields of a form that differ from a user. */
export function changeOf(user: User, form: UserForm): UserChange {
  const change: UserChange = {}
  if (form.name !== user.name) change.name = form.name
  if (form.email !== user.email) change.email = form.email
  if (form.role !== user.role) change.role = form.role
  return change
}

export function createCommands(form: UserForm): Commands {
  const { userId, ...rest } = form
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ''))
  return {
    curl: curl('POST', apiUrl('/v1/users'), { userId, ...given }),
    cli: cli(['users', 'create', userId], given),
    python: python('create_user', [userId], given),
  }
}

export function changeCommands(userId: string, change: UserChange): Commands {
  const { state, ...rest } = change
  const switched = state === undefined ? {} : state === 'disabled' ? { disable: true } : { enable: true }
  return {
    curl: curl('PATCH', apiUrl(`/v1/users/${encodeURIComponent(userId)}`), change),
    cli: cli(['users', 'update', userId], { ...rest, ...switched }),
    python: python('update_user', [userId, change]),
  }
}

export function deleteCommands(userId: string): Commands {
  return {
    curl: curl('DELETE', apiUrl(`/v1/users/${encodeURIComponent(userId)}`)),
    cli: cli(['users', 'delete', userId]),
    python: python('delete_user', [userId]),
  }
}
