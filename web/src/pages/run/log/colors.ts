import type { CSSProperties } from 'react'
import { type AnsiColor, type AnsiStyle, basicColor } from './ansi'

/** How much of the colours of the output is shown: all, those of the theme only, or none. */
export type ColorLevel = 'all' | 'theme' | 'none'

/** The basic colours, readable on both themes. */
const PALETTE = [
  'var(--ink-3)',
  'var(--bad)',
  'var(--ok)',
  'var(--late)',
  'var(--live)',
  'var(--missed)',
  'color-mix(in oklab, var(--ok), var(--live))',
  'var(--ink-2)',
] as const

function css(color: AnsiColor, level: ColorLevel): string {
  const shown = level === 'theme' ? basicColor(color) : color
  if (typeof shown === 'number') {
    const base = PALETTE[shown % 8] ?? 'var(--ink)'
    return shown < 8 ? base : `color-mix(in oklab, ${base} 80%, var(--ink))`
  }
  // A colour that was chosen for a black terminal is moved towards the ink of the theme.
  return `color-mix(in oklab, ${shown} 62%, var(--ink))`
}

/** The look of a piece of output, or undefined for plain text. */
export function cssOf(style: AnsiStyle | null, level: ColorLevel): CSSProperties | undefined {
  if (style === null || level === 'none') return undefined
  const fg = style.inverse === true ? (style.bg ?? style.fg) : style.fg
  const bg = style.inverse === true ? (style.fg ?? 7) : style.bg
  const lines = [style.underline === true && 'underline', style.strike === true && 'line-through'].filter(Boolean)
  return {
    ...(fg === undefined ? {} : { color: css(fg, level) }),
    ...(bg === undefined ? {} : { backgroundColor: `color-mix(in oklab, ${css(bg, level)} 26%, transparent)` }),
    ...(style.bold === true ? { fontWeight: 600 } : {}),
    ...(style.dim === true ? { opacity: 0.75 } : {}),
    ...(style.italic === true ? { fontStyle: 'italic' } : {}),
    ...(lines.length > 0 ? { textDecorationLine: lines.join(' ') } : {}),
  }
}
