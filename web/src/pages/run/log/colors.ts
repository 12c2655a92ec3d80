import type { CSSProperties } from 'react'
import { type AnsiColor, type AnsiStyle, basicColor } from './ansi'

/** Which colours of the output are shown: all, the basic colours of the theme only, or none. */
export type ColorLevel = 'all' | 'theme' | 'none'

/** The basic colours. They are readable on the light and on the dark theme. */
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
  // Output chooses colours for a black terminal, so they are mixed with the text colour of the theme.
  return `color-mix(in oklab, ${shown} 62%, var(--ink))`
}

/** Returns the CSS of a style, or undefined for plain text. */
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
