import { describe, expect, it, vi } from 'vitest'
import { bulkCommands, bulkFilter, filterWords, whyNot } from './bulk'

vi.stubGlobal('document', { baseURI: 'http://timeball/' })

describe('actions over the filter of jobs', () => {
  it('say that all are meant when there is no filter', () => {
    expect(bulkFilter({})).toEqual({ all: true })
    expect(bulkFilter({ q: undefined })).toEqual({ all: true })
    expect(bulkFilter({ tag: 'etl', status: ['paused'] })).toEqual({ tag: 'etl', status: ['paused'] })
  })

  it('are described in words, with the statuses that the API selects', () => {
    expect(filterWords({}, 'scheduled')).toBe('All scheduled jobs')
    expect(filterWords({ q: 'etl', kind: 'shell' }, 'scheduled')).toBe(
      'Scheduled jobs with “etl” in the name, of the kind shell',
    )
    expect(filterWords({ status: ['paused'] }, 'scheduled')).toBe('Paused jobs')
  })

  it('cannot be chosen when the filter has jobs to which they never apply', () => {
    expect(whyNot('pause', {})).toBeUndefined()
    expect(whyNot('resume', { status: ['paused'] })).toBeUndefined()
    expect(whyNot('resume', { status: ['paused', 'scheduled'] })).toContain('scheduled')
    expect(whyNot('cancel', { status: ['cancelled'] })).toContain('cancelled')
  })

  it('can be copied for a terminal and a script', () => {
    const { curl, cli, python } = bulkCommands('pause', { q: 'a b', userId: 'ann' }, { reason: 'moving' })
    expect(curl).toContain(`{"action":"pause","filter":{"q":"a b","userId":"ann"},"reason":"moving"}`)
    expect(cli).toBe(`timeball jobs bulk pause --search 'a b' --user-id ann --reason moving`)
    expect(python).toContain(`client.bulk_jobs("pause", q="a b", user_id="ann", reason="moving")`)
    const all = bulkCommands('cancel', {})
    expect(all.cli).toBe('timeball jobs bulk cancel --all')
    expect(all.python).toContain('bulk_jobs("cancel", everything=True)')
    expect(all.curl).toContain('"filter":{"all":true}')
  })
})
