import { expect, test, vi } from 'vitest'
import { exportUrl, listCommands, verifyCommands } from './commands'
import { apiFilter, changedWords, differences, pageOf } from './model'
import { auditLogSearch } from './search'

vi.stubGlobal('document', { baseURI: 'http://timeball/' })

test('the address has the filter, and values that the page does not know are ignored', () => {
  expect(auditLogSearch({ scope: 'all', actor: 'anna', action: '', other: '1' })).toEqual({ actor: 'anna' })
  expect(auditLogSearch({ scope: 'system', entry: '7' })).toEqual({ scope: 'system', entry: '7' })
})

test('relative times become instants for the API', () => {
  const now = Date.parse('2026-03-01T12:00:00Z')
  expect(apiFilter({ startTime: '1h', action: 'job.*' }, now)).toEqual({
    scope: 'tenant',
    action: 'job.*',
    from: '2026-03-01T11:00:00.000Z',
  })
})

test('fields that exist only before or after a change are shown with one value', () => {
  const entry = { before: { state: 'active', old: 1 }, after: { state: 'paused', fresh: [2] } }
  expect(differences(entry)).toEqual([
    { name: 'state', before: 'active', after: 'paused' },
    { name: 'old', before: 1, after: undefined },
    { name: 'fresh', before: undefined, after: [2] },
  ])
  expect(changedWords(entry)).toBe('state, old, fresh')
  expect(differences({ before: null, after: null })).toEqual([])
})

test('a resource leads to its page', () => {
  expect(pageOf({ resource: 'job', resourceId: 'j_1' })).toBe('jobs/j_1')
  expect(pageOf({ resource: 'task', resourceId: 'a:b' })).toBe('tasks/a%3Ab')
  expect(pageOf({ resource: 'job', resourceId: '' })).toBeNull()
  expect(pageOf({ resource: 'api-key', resourceId: 'k_1' })).toBeNull()
})

test('commands list, verify and export what the page shows', () => {
  const commands = listCommands({ scope: 'tenant', action: 'job.*', from: '2026-03-01T11:00:00.000Z' })
  expect(commands.cli).toBe("timeball audit-log list --action 'job.*' --from 2026-03-01T11:00:00.000Z")
  expect(commands.python).toContain('client.audit_log(action="job.*", since="2026-03-01T11:00:00.000Z")')
  expect(verifyCommands('system').cli).toBe('timeball audit-log verify --scope system')
  expect(exportUrl('system')).toBe('http://timeball/v1/audit-log/export?scope=system')
  expect(exportUrl('tenant')).toBe('http://timeball/v1/audit-log/export')
})
