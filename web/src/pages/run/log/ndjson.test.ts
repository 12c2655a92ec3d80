import { expect, it } from 'vitest'
import { NdjsonReader } from './ndjson'

it('joins documents and characters that were cut anywhere', () => {
  const bytes = new TextEncoder().encode('{"a":"ä"}\n{"a":"€"}\nnot json\n{"a":')
  for (let size = 1; size < 7; size++) {
    const reader = new NdjsonReader<{ a: string }>()
    const found: unknown[] = []
    for (let at = 0; at < bytes.length; at += size) found.push(...reader.push(bytes.subarray(at, at + size)))
    expect(found).toEqual([{ a: 'ä' }, { a: '€' }])
    expect(reader.push(new TextEncoder().encode('1}\n'))).toEqual([{ a: 1 }])
  }
})
