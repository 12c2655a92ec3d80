import { expect, test, vi } from 'vitest'
import type { User } from '@/api/types'
import { changeCommands, changeOf, createCommands } from './commands'

vi.stubGlobal('document', { baseURI: 'http://timeball/' })

const anna: User = {
  userId: 'anna',
  name: 'Anna',
  email: 'anna@example.org',
  role: 'editor',
  state: 'active',
  subject: null,
  version: 1,
  createdAt: '2026-01-01T00:00:00Z',
  updatedAt: '2026-01-01T00:00:00Z',
  lastSeenAt: null,
}

test('a change has only the fields that differ', () => {
  const form = { userId: 'anna', name: 'Anna', email: 'anna@example.org', role: 'editor' as const }
  expect(changeOf(anna, form)).toEqual({})
  expect(changeOf(anna, { ...form, role: 'viewer', email: '' })).toEqual({ role: 'viewer', email: '' })
})

test('commands leave out what is empty, and disable a user with an option', () => {
  expect(createCommands({ userId: 'anna', role: 'viewer', name: '', email: '' }).cli).toBe(
    'timeball users create anna --role viewer',
  )
  expect(changeCommands('anna', { state: 'disabled' }).cli).toBe('timeball users update anna --disable')
})
