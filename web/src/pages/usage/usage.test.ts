import { describe, expect, it, vi } from 'vitest'
import type { Usage } from '@/api/types'
import { amount, firstDay, groupOf, size, sorted, usageCommands, usageSearch } from './usage'

vi.stubGlobal('document', { baseURI: 'http://timeball/' })

const NONE = { runs: 0, attempts: 0, attemptSeconds: '0', cpuSeconds: '0', memoryGibSeconds: '0', outputBytes: 0 }
const usage = (fields: Partial<Usage>): Usage => ({ ...NONE, cost: '0', ...fields })

describe('usage', () => {
  it('reads the address, and ignores what it cannot use', () => {
    expect(usageSearch({ days: '7', by: 'job' })).toEqual({ days: '7', by: 'job' })
    expect(usageSearch({ days: '8', by: 'week' })).toEqual({})
  })

  it('begins with the first of the days in UTC', () => {
    expect(firstDay(Date.parse('2026-11-19T23:59:59Z'), '7')).toBe('2026-11-13')
  })

  it('names jobs without a name, deleted jobs and jobs without a user', () => {
    expect(groupOf(usage({ jobId: 'j_1', jobName: 'etl' }), 'job')).toEqual({ id: 'j_1', name: 'etl' })
    expect(groupOf(usage({ jobId: 'j_1', jobName: '' }), 'job').name).toBe('j_1')
    expect(groupOf(usage({ jobId: '', jobName: '' }), 'job').name).toBe('Deleted jobs')
    expect(groupOf(usage({ userId: '' }), 'user').name).toBe('No user')
  })

  it('sorts days from the newest, and others by cost and time', () => {
    const days = [usage({ day: '2026-11-01' }), usage({ day: '2026-11-02' })]
    expect(sorted(days, 'day').map(each => each.day)).toEqual(['2026-11-02', '2026-11-01'])
    const users = [
      usage({ userId: 'a', cost: '1', attemptSeconds: '5' }),
      usage({ userId: 'b', cost: '10' }),
      usage({ userId: 'c', cost: '1', attemptSeconds: '50' }),
    ]
    expect(sorted(users, 'user').map(each => each.userId)).toEqual(['b', 'c', 'a'])
  })

  it('rounds for people', () => {
    expect(['0', '1234.5678', '0.000123456', '12'].map(amount)).toEqual(['0', '1,234.57', '0.000123', '12'])
    expect([0, 1023, 1536, 5 * 2 ** 30].map(size)).toEqual(['0 B', '1,023 B', '1.5 KiB', '5 GiB'])
  })

  it('gives the commands for the same list', () => {
    const commands = usageCommands('2026-11-01', 'job')
    expect(commands.cli).toBe('timeball usage --from 2026-11-01 --by job')
    expect(commands.python).toContain('usage(since="2026-11-01", by=["job"])')
    expect(commands.curl).toContain('groupBy=job')
  })
})
