import { useEffect, useState } from 'react'
import { serverNow } from '@/lib/clock'
import { zone } from '@/lib/settings'
import { fullDateTime, instant, relative } from '@/lib/time'

type Tip = { at: number; x: number; y: number; below: boolean }

const TIP_DELAY_MS = 250

/**
 * Shows the exact time as the tooltip of each `<time>` element. All elements share one listener, because a list has
 * hundreds of them.
 */
export function TimeTips() {
  const [tip, setTip] = useState<Tip | null>(null)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let shown: Element | null = null
    const over = (event: PointerEvent) => {
      const element = event.target instanceof Element ? event.target.closest('time[datetime]') : null
      if (element === shown) return
      shown = element
      clearTimeout(timer)
      setTip(null)
      const at = instant(element?.getAttribute('datetime'))
      if (element === null || at === null) return
      timer = setTimeout(() => {
        const box = element.getBoundingClientRect()
        const below = box.top < 90
        setTip({ at, x: box.left + box.width / 2, y: below ? box.bottom + 6 : box.top - 6, below })
      }, TIP_DELAY_MS)
    }
    const hide = () => {
      clearTimeout(timer)
      shown = null
      setTip(null)
    }
    document.addEventListener('pointerover', over)
    document.addEventListener('scroll', hide, true)
    document.addEventListener('keydown', hide)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('pointerover', over)
      document.removeEventListener('scroll', hide, true)
      document.removeEventListener('keydown', hide)
    }
  }, [])
  if (tip === null) return null
  const chosen = zone.get()
  const x = Math.min(Math.max(tip.x, 120), window.innerWidth - 120)
  return (
    <div
      role="tooltip"
      style={{ left: x, top: tip.y, transform: `translate(-50%, ${tip.below ? '0' : '-100%'})` }}
      className="pointer-events-none fixed z-50 grid animate-fade whitespace-nowrap rounded-md bg-ink px-2 py-1 text-bg text-xs shadow-pop"
    >
      <span>{fullDateTime(tip.at, chosen)}</span>
      {chosen !== 'UTC' && <span className="opacity-75">{fullDateTime(tip.at, 'UTC')}</span>}
      <span className="opacity-75">{relative(tip.at, serverNow())}</span>
    </div>
  )
}
