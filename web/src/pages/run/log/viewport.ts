/**
 * Computes which lines a scrolled element shows. The height of an element is limited by the browser, so long logs have
 * a limited height and a scaled position. Pure functions.
 */

export const LINE_HEIGHT = 20
/** Maximum height of the element in pixels. Browsers are reliable up to about 16 million. */
const MAX_HEIGHT = 12_000_000

export type Viewport = { height: number; scale: number }

/** The height of the element, and the number of lines that scrolling by the height of one line moves. */
export function viewportOf(lines: number, viewHeight: number): Viewport {
  const natural = lines * LINE_HEIGHT
  if (natural <= MAX_HEIGHT) return { height: natural, scale: 1 }
  const height = MAX_HEIGHT
  return { height, scale: (natural - viewHeight) / (height - viewHeight) }
}

/** Returns the first visible line with a fraction: 12.5 is the middle of line 12. */
export function topLine(scrollTop: number, viewport: Viewport): number {
  return Math.max(0, (scrollTop * viewport.scale) / LINE_HEIGHT)
}

/** Returns the scroll position that shows a line in the upper third of the view, or at an edge of the log. */
export function scrollFor(line: number, viewport: Viewport, viewHeight: number): number {
  const top = line * LINE_HEIGHT - viewHeight / 3
  return Math.max(0, Math.min(viewport.height - viewHeight, top / viewport.scale))
}
