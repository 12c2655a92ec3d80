import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import { zone } from '@/lib/settings'
import { clockTime, shortDateTime } from '@/lib/time'
import { useWidth } from './data-table'

export type Series = {
  label: string
  color: string
  values: readonly (number | null)[]
  fill?: boolean
  format?: (value: number) => string
  paths?: 'line' | 'bars' | 'points'
}

/** Returns the colour of a token of styles.css in a form that a canvas accepts. */
export function tokenColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}

/**
 * A line chart of values over time. `times` are milliseconds. `color` is a token, such as `ok`. `label` describes the
 * chart for screen readers; the page also shows the figures as text or as a table.
 */
export default function Chart({
  times,
  series,
  height = 160,
  label,
  format = String,
  onPick,
}: {
  times: readonly number[]
  series: readonly Series[]
  height?: number
  label: string
  format?: (value: number) => string
  onPick?: (index: number) => void
}) {
  const host = useRef<HTMLDivElement>(null)
  const width = useWidth(host)
  const shownZone = zone.use()
  const plot = useRef<uPlot | null>(null)
  const pick = useRef(onPick)
  const shape = JSON.stringify([series.map(item => [item.label, item.color, item.fill, item.paths]), height, shownZone])
  const latest = useRef({ times, series, format })
  useEffect(() => {
    pick.current = onPick
    latest.current = { times, series, format }
  })

  useEffect(() => {
    const element = host.current
    if (element === null || width === 0) return
    const build = () => {
      plot.current?.destroy()
      const text = (value: number) => latest.current.format(value)
      const axis = {
        stroke: tokenColor('ink-3'),
        grid: { stroke: tokenColor('line'), width: 1 },
        ticks: { show: false },
        font: '11px system-ui, sans-serif',
      }
      plot.current = new uPlot(
        {
          width,
          height,
          cursor: { drag: { x: false, y: false }, points: { size: 6 } },
          legend: { show: false },
          padding: [8, 28, 0, 0],
          axes: [
            {
              ...axis,
              space: 80,
              size: 26,
              values: (_, at) => at.map(value => shortDateTime(value * 1000, Date.now(), zone.get())),
            },
            { ...axis, size: 56, values: (_, ys) => ys.map(value => text(value)) },
          ],
          scales: {
            y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) <= 0 ? 1 : (high ?? 1) * 1.08] },
          },
          series: [{}, ...latest.current.series.map(item => seriesOptions(item))],
          hooks: { setCursor: [chart => showTip(chart, element, latest.current)] },
        },
        dataOf(latest.current.times, latest.current.series),
        element,
      )
      plot.current.over.addEventListener('click', () => {
        const index = plot.current?.cursor.idx
        if (index !== null && index !== undefined) pick.current?.(index)
      })
    }
    build()
    const observer = new MutationObserver(build)
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    return () => {
      observer.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [width, height, shape])

  useEffect(() => {
    plot.current?.setData(dataOf(times, series))
  }, [times, series])

  return <div ref={host} role="img" aria-label={label} style={{ height }} className="relative w-full" />
}

function seriesOptions(item: Series): uPlot.Series {
  const color = tokenColor(item.color)
  const bars = uPlot.paths.bars
  return {
    label: item.label,
    stroke: color,
    width: item.paths === 'points' ? 0 : 1.5,
    points: { show: item.paths === 'points', size: 5, fill: color },
    ...(item.fill === true || item.paths === 'bars'
      ? { fill: `color-mix(in oklab, ${color} ${item.paths === 'bars' ? 70 : 14}%, transparent)` }
      : {}),
    ...(item.paths === 'bars' && bars !== undefined ? { paths: bars({ size: [0.8, 24] }) } : {}),
  }
}

function dataOf(times: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  return [times.map(at => at / 1000), ...series.map(item => [...item.values])] as uPlot.AlignedData
}

function showTip(
  chart: uPlot,
  host: HTMLElement,
  data: { times: readonly number[]; series: readonly Series[]; format: (value: number) => string },
): void {
  let tip = host.querySelector<HTMLElement>('[data-tip]')
  if (tip === null) {
    tip = document.createElement('div')
    tip.dataset.tip = ''
    tip.className =
      'pointer-events-none absolute top-1 z-10 hidden whitespace-pre rounded-md bg-ink px-2 py-1 text-bg text-xs'
    host.append(tip)
  }
  const index = chart.cursor.idx
  const at = index === null || index === undefined ? undefined : data.times[index]
  if (index === null || index === undefined || at === undefined || (chart.cursor.left ?? -1) < 0) {
    tip.classList.add('hidden')
    return
  }
  const lines = data.series.map(item => {
    const value = item.values[index]
    return `${item.label}  ${value === null || value === undefined ? '–' : (item.format ?? data.format)(value)}`
  })
  tip.textContent = [clockTime(at, zone.get()), ...lines].join('\n')
  tip.classList.remove('hidden')
  const left = (chart.cursor.left ?? 0) + 64
  tip.style.left = left > host.clientWidth - 160 ? 'auto' : `${left + 8}px`
  tip.style.right = left > host.clientWidth - 160 ? `${host.clientWidth - left + 8}px` : 'auto'
}
