import { describe, expect, it } from 'vitest'
import { LINE_HEIGHT, scrollFor, topLine, viewportOf } from './viewport'

describe('viewport', () => {
  it('is exact for logs that a browser can lay out', () => {
    const view = viewportOf(1000, 400)
    expect(view).toEqual({ height: 1000 * LINE_HEIGHT, scale: 1 })
    expect(topLine(250, view)).toBe(12.5)
  })

  it('reaches the first and the last line of a log of any length', () => {
    const lines = 10_000_000
    const view = viewportOf(lines, 400)
    expect(view.height).toBeLessThan(16_000_000)
    expect(topLine(0, view)).toBe(0)
    expect(topLine(view.height - 400, view)).toBeCloseTo(lines - 400 / LINE_HEIGHT, 3)
  })

  it('scrolls to a line so that it is in view', () => {
    for (const lines of [50, 1000, 10_000_000]) {
      const view = viewportOf(lines, 400)
      for (const line of [0, Math.floor(lines / 2), lines - 1]) {
        const top = topLine(scrollFor(line, view, 400), view)
        expect(line).toBeGreaterThanOrEqual(Math.floor(top))
        expect(line).toBeLessThan(top + 400 / LINE_HEIGHT)
      }
    }
  })
})
