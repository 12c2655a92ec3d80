import { describe, expect, it } from 'vitest'
import { cli, curl, python, pythonLiteral, shellWord } from './quote'

describe('commands', () => {
  it('quote what a shell would read otherwise', () => {
    expect(shellWord('r_1')).toBe('r_1')
    expect(shellWord("it's $HOME")).toBe(`'it'\\''s $HOME'`)
    expect(shellWord('')).toBe("''")
  })

  it('never contain a key', () => {
    expect(curl('POST', 'http://h/v1/runs/r_1/cancel', { reason: "don't" })).toBe(
      `curl -sS -H "Authorization: Bearer $TIMEBALL_TOKEN" -H 'Content-Type: application/json' -d '{"reason":"don'\\''t"}' http://h/v1/runs/r_1/cancel`,
    )
    expect(curl('DELETE', 'http://h/v1/jobs/j_1')).toContain('-X DELETE')
  })

  it('leave out options without a value', () => {
    expect(cli(['runs', 'bulk', 'retry'], { status: ['failed', 'dead'], tag: undefined, yes: true, all: false })).toBe(
      'timeball runs bulk retry --status failed --status dead --yes',
    )
  })

  it('are valid Python', () => {
    expect(pythonLiteral({ a: [1, true, null, 'x"y'] })).toBe('{"a": [1, True, None, "x\\"y"]}')
    expect(python('cancel', ['r_1'], { reason: undefined })).toContain('client.cancel("r_1")')
  })
})
