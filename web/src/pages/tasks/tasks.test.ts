import { describe, expect, test } from 'vitest'
import { taskCode, taskWords } from './words'

describe('a task in one line', () => {
  test.each([
    [{ kind: 'http' as const, url: 'https://example.org' }, 'POST https://example.org'],
    [{ kind: 'shell' as const, command: 'echo 1' }, 'echo 1'],
    [{ kind: 'shell' as const, command: ['echo', '1'] }, 'echo 1'],
    [{ kind: 'script' as const, script: 'a.py', args: ['-v'] }, 'a.py -v'],
    [{ kind: 'python' as const, function: 'reports.nightly' }, 'reports.nightly'],
  ])('%o', (task, code) => {
    expect(taskCode(task)).toBe(code)
  })
})

test('words name headers and variables, but not their values', () => {
  const http = taskWords({
    kind: 'http',
    url: 'https://example.org',
    headers: { Authorization: 'secret' },
    breaker: false,
  })
  expect(JSON.stringify(http)).toContain('Authorization')
  expect(JSON.stringify(http)).not.toContain('secret')
  const shell = taskWords({ kind: 'shell', command: 'x', env: { TOKEN: 'secret' } })
  expect(shell.at(-1)).toEqual({ label: 'Environment', text: '1 variable: TOKEN' })
})
