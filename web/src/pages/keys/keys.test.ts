import { expect, test } from 'vitest'
import type { ApiKey } from '@/api/types'
import { commandWith, keyRules, sortedKeys } from './keys'

const key = (
  keyId: string,
  createdAt: string,
  revokedAt: string | null = null,
  more: Partial<ApiKey> = {},
): ApiKey => ({
  keyId,
  name: '',
  role: 'worker',
  scopes: null,
  labels: null,
  tenants: null,
  userId: null,
  createdAt,
  expiresAt: null,
  lastUsedAt: null,
  revokedAt,
  replaces: null,
  ...more,
})

test('keys that work come first, the newest on top', () => {
  const found = sortedKeys([
    key('old', '2026-01-01T00:00:00Z'),
    key('gone', '2026-01-02T00:00:00Z', '2026-02-01T00:00:00Z'),
    key('new', '2026-03-01T00:00:00Z'),
    key('gone later', '2026-01-01T00:00:00Z', '2026-03-01T00:00:00Z'),
  ])
  expect(found.live.map(item => item.keyId)).toEqual(['new', 'old'])
  expect(found.revoked.map(item => item.keyId)).toEqual(['gone later', 'gone'])
})

test('the command names the server, and never the secret', () => {
  expect(commandWith('worker', 'http://127.0.0.1:1300')).toContain('--server http://127.0.0.1:1300 --token-file')
  expect(commandWith('admin', 'http://127.0.0.1:1300')).toContain('TIMEBALL_URL=http://127.0.0.1:1300')
})

test('the rules of a key are listed, and a key without rules has none', () => {
  expect(keyRules(key('plain', '2026-01-01T00:00:00Z'))).toEqual([])
  const rules = { scopes: ['read'], labels: ['gpu', 'ssd'], tenants: ['acme'], userId: 'anna' }
  expect(keyRules(key('bound', '2026-01-01T00:00:00Z', null, rules))).toEqual([
    'only read',
    'labels gpu, ssd',
    'serves acme',
    'of anna',
  ])
})
