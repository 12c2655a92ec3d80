/**
 * Terminal colours in text. Only colours and weights are kept; every other escape sequence (cursor, title, links) is
 * dropped, so that output can change nothing but its own look. Each line begins without colour.
 */

/** A colour: an index of the palette (0 to 15), or `#rrggbb`. */
export type AnsiColor = number | string

export type AnsiStyle = {
  fg?: AnsiColor
  bg?: AnsiColor
  bold?: boolean
  dim?: boolean
  italic?: boolean
  underline?: boolean
  strike?: boolean
  inverse?: boolean
}

export type AnsiSpan = { text: string; style: AnsiStyle | null }

const ESC = '\u001b'
const BELL = '\u0007'
// CSI; OSC, DCS, SOS, PM and APC up to their end (or the end of the line); two-character sequences; a lone ESC.
const SEQUENCE = new RegExp(
  [
    `${ESC}\\[([0-9;:?<=>!]*)[ -/]*([@-~])`,
    `${ESC}[\\]PX^_][^${BELL}${ESC}]*(?:${BELL}|${ESC}\\\\|$)`,
    `${ESC}[ -/]*[0-~]`,
    ESC,
  ].join('|'),
  'g',
)

export function hasAnsi(text: string): boolean {
  return text.includes(ESC)
}

/** Removes the escape sequences from a text. */
export function stripAnsi(text: string): string {
  return hasAnsi(text) ? text.replace(SEQUENCE, '') : text
}

/** Returns a line as a terminal shows it. After a carriage return, text overwrites the line from its beginning. */
export function afterReturn(line: string): string {
  if (!line.includes('\r')) return line
  const parts = line.split('\r')
  return parts.findLast(part => part !== '') ?? ''
}

/** Splits a line into spans with one style each. */
export function parseAnsi(line: string): AnsiSpan[] {
  if (!hasAnsi(line)) return line === '' ? [] : [{ text: line, style: null }]
  const spans: AnsiSpan[] = []
  let style: AnsiStyle | null = null
  let from = 0
  for (const match of line.matchAll(SEQUENCE)) {
    if (match.index > from) push(spans, line.slice(from, match.index), style)
    from = match.index + match[0].length
    if (match[2] === 'm' && !/[?<=>!]/.test(match[1] ?? '')) style = applied(style, match[1] ?? '')
  }
  if (from < line.length) push(spans, line.slice(from), style)
  return spans
}

function push(spans: AnsiSpan[], text: string, style: AnsiStyle | null): void {
  const last = spans.at(-1)
  if (last !== undefined && last.style === style) last.text += text
  else spans.push({ text, style })
}

type Flag = 'bold' | 'dim' | 'italic' | 'underline' | 'strike' | 'inverse'

const ON: Record<number, Flag> = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse', 9: 'strike' }
const OFF: Record<number, readonly Flag[]> = {
  22: ['bold', 'dim'],
  23: ['italic'],
  24: ['underline'],
  27: ['inverse'],
  29: ['strike'],
}

/** Returns the style after an SGR sequence with these parameters. */
function applied(before: AnsiStyle | null, parameters: string): AnsiStyle | null {
  const codes = parameters.split(/[;:]/).map(Number)
  let style: AnsiStyle = { ...before }
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0
    if (code === 0) style = {}
    else if (code === 38 || code === 48) {
      const [color, used] = extended(codes.slice(i + 1))
      i += used
      if (color !== null) style[code === 38 ? 'fg' : 'bg'] = color
    } else change(style, code)
  }
  return Object.keys(style).length === 0 ? null : style
}

function change(style: AnsiStyle, code: number): void {
  const flag = ON[code]
  if (flag !== undefined) style[flag] = true
  for (const name of OFF[code] ?? []) delete style[name]
  if (code >= 30 && code <= 37) style.fg = code - 30
  else if (code >= 90 && code <= 97) style.fg = code - 82
  else if (code >= 40 && code <= 47) style.bg = code - 40
  else if (code >= 100 && code <= 107) style.bg = code - 92
  else if (code === 39) delete style.fg
  else if (code === 49) delete style.bg
}

/** Returns the colour after the parameter 38 or 48, and the number of parameters that it uses. */
function extended(rest: readonly number[]): [AnsiColor | null, number] {
  if (rest[0] === 5) return [indexed(rest[1] ?? 0), 2]
  if (rest[0] !== 2) return [null, 1]
  return [hex(rest[1] ?? 0, rest[2] ?? 0, rest[3] ?? 0), 4]
}

const CUBE = [0, 95, 135, 175, 215, 255]

/** Returns a colour of the palette of 256 colours. */
function indexed(index: number): AnsiColor | null {
  if (!(index >= 0 && index <= 255)) return null
  if (index < 16) return index
  if (index >= 232) return hex(8 + (index - 232) * 10, 8 + (index - 232) * 10, 8 + (index - 232) * 10)
  const at = index - 16
  return hex(CUBE[Math.floor(at / 36)] ?? 0, CUBE[Math.floor(at / 6) % 6] ?? 0, CUBE[at % 6] ?? 0)
}

function hex(...parts: readonly number[]): string {
  return `#${parts.map(part => (part & 255).toString(16).padStart(2, '0')).join('')}`
}

/** Returns the nearest of the eight basic colours, which the theme replaces with its own. */
export function basicColor(color: AnsiColor): number {
  if (typeof color === 'number') return color
  const value = Number.parseInt(color.slice(1), 16)
  const bit = (shift: number) => (((value >> shift) & 255) > 110 ? 1 : 0)
  return bit(16) + 2 * bit(8) + 4 * bit(0)
}

const CONTROLS = '\u0000-\u0008\u000a-\u001f\u007f-\u009f'
const MARKS = '\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff'
const INVISIBLE = new RegExp(`[${CONTROLS}${MARKS}]`, 'g')

/** Replaces control characters and marks of text direction with their names, so that a line hides nothing. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, found => {
    const code = found.charCodeAt(0)
    if (code < 0x20) return String.fromCharCode(0x2400 + code)
    return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`
  })
}
