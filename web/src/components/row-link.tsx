import { useRouter } from '@tanstack/react-router'
import type { MouseEvent, ReactNode } from 'react'
import { baseUrl } from '@/lib/url'

/**
 * A link within the UI for rows of long lists, such as `runs/r_1` or `jobs?tag=etl`. Each `<Link>` of the router
 * listens to the state of the page, so hundreds of them make scrolling slow.
 */
export function RowLink({
  to,
  className,
  title,
  children,
}: {
  to: string
  className?: string
  title?: string | undefined
  children: ReactNode
}) {
  const router = useRouter()
  const href = baseUrl().pathname + to
  const open = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0) return
    event.preventDefault()
    router.history.push(href)
  }
  return (
    <a href={href} onClick={open} className={className} title={title}>
      {children}
    </a>
  )
}
