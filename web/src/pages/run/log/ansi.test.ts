import { describe, expect, it } from 'vitest'
import { afterReturn, basicColor, parseAnsi, stripAnsi, visible } from './ansi'

const E = '\u001b'

describe('parseAnsi', () => {
  it('leaves plain text as one piece', () => {
    expect(parseAnsi('a <b>')).toEqual([{ text: 'a <b>', style: null }])
    expect(parseAnsi('')).toEqual([])
  })

  it('splits at colours and returns to none', () => {
    expect(parseAnsi(`${E}[1;31mERROR${E}[0m done`)).toEqual([
      { text: 'ERROR', style: { bold: true, fg: 1 } },
      { text: ' done', style: null },
    ])
    expect(parseAnsi(`${E}[92;44mx${E}[39my${E}[my`)).toEqual([
      { text: 'x', style: { fg: 10, bg: 4 } },
      { text: 'y', style: { bg: 4 } },
      { text: 'y', style: null },
    ])
  })

  it('reads colours of 256 and of 24 bits, also with colons', () => {
    expect(parseAnsi(`${E}[38;5;196mr`)[0]?.style).toEqual({ fg: '#ff0000' })
    expect(parseAnsi(`${E}[38;5;9;1mr`)[0]?.style).toEqual({ fg: 9, bold: true })
    expect(parseAnsi(`${E}[48;5;244mr`)[0]?.style).toEqual({ bg: '#808080' })
    expect(parseAnsi(`${E}[38:2:18:52:86mr`)[0]?.style).toEqual({ fg: '#123456' })
    expect(parseAnsi(`${E}[38;5;999mr`)[0]?.style).toBeNull()
  })

  it('drops what moves the cursor, sets titles or makes links', () => {
    expect(
      stripAnsi(`${E}[2J${E}[H${E}]0;title\u0007a${E}]8;;javascript:alert(1)${E}\\b${E}]8;;${E}\\c${E}(B${E}`),
    ).toBe('abc')
    expect(parseAnsi(`${E}[?25lx`)).toEqual([{ text: 'x', style: null }])
    expect(stripAnsi(`a${E}]0;never closed`)).toBe('a')
  })

  it('takes time that grows with the length only', () => {
    const parts = parseAnsi([...Array.from({ length: 100_000 }, () => `${E}[31m`), 'x'].join(''))
    expect(parts).toHaveLength(1)
  })
})

describe('lines', () => {
  it('shows what remains after carriage returns', () => {
    expect(afterReturn('10 %\r50 %\r100 %\r')).toBe('100 %')
    expect(afterReturn('windows\r')).toBe('windows')
    expect(afterReturn('plain')).toBe('plain')
  })

  it('makes control characters and marks of direction visible', () => {
    expect(visible('a\u0000b\tc\u202ed')).toBe('a␀b\tc<U+202E>d')
  })

  it('finds the nearest basic colour', () => {
    expect(basicColor('#ff0000')).toBe(1)
    expect(basicColor('#00ff10')).toBe(2)
    expect(basicColor(12)).toBe(12)
  })
})
