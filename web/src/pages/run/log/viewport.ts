/**
 * Which lines a scrolled region shows. A browser cannot make an element of any height, so the height of long logs is
 * limited and the position is scaled. Pure: tested without a browser.
 */

export const LINE_HEIGHT = 20
/** Browsers lay out elements of up to about 16 million pixels reliably. */
const MAX_HEIGHT = 12_000_000

export type Viewport = { height: number; scale: number }

/** The height of all lines, and how many lines a line's height of scrolling moves. */
export function viewportOf(lines: number, viewHeight: number): Viewport {
  const natural = lines * LINE_HEIGHT
  if (natural <= MAX_HEIGHT) return { height: natural, scale: 1 }
  const height = MAX_HEIGHT
  return { height, scale: (natural - viewHeight) / (height - viewHeight) }
}

/** The first visible line as a number with a fraction: 12.5 is the middle of line 12. */
export function topLine(scrollTop: number, viewport: Viewport): number {
  return Math.max(0, (scrollTop * viewport.scale) / LINE_HEIGHT)
}

/** Where to scroll so that a line is in the upper third, or at an edge. */
export function scrollFor(line: number, viewport: Viewport, viewHeight: number): number {
  const top = line * LINE_HEIGHT - viewHeight / 3
  return Math.max(0, Math.min(viewport.height - viewHeight, top / viewport.scale))
}
