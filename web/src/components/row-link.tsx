import { useRouter } from '@tanstack/react-router'
import type { MouseEvent, ReactNode } from 'react'
import { baseUrl } from '@/lib/url'

/**
 * A link within the UI for rows of long lists: `runs/r_1`, `jobs?tag=etl`. `<Link>` of the router follows the state of
 * the page: with hundreds of them, scrolling is felt.
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
