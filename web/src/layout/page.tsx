import { type ReactNode, useEffect } from 'react'

/** The head of a page: the title with figures or text beside it, actions on the right, and filters below. */
export function PageHead({
  title,
  name,
  detail,
  actions,
  children,
}: {
  title: ReactNode /** The title of the browser tab. */
  name: string
  detail?: ReactNode
  actions?: ReactNode
  children?: ReactNode
}) {
  useEffect(() => {
    document.title = `${name} · Timeball`
  }, [name])
  return (
    <div className="grid shrink-0 gap-3 px-4 pt-4 pb-3 lg:px-6">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <h1 className="min-w-0 font-semibold text-xl tracking-tight [overflow-wrap:anywhere]">{title}</h1>
        {detail !== undefined && <div className="min-w-0 text-ink-2 text-sm">{detail}</div>}
        <span className="flex-1" />
        {actions !== undefined && <div className="no-print flex flex-wrap items-center gap-2">{actions}</div>}
      </div>
      {children}
    </div>
  )
}

/** A section of a page, with a heading. */
export function Section({
  title,
  aside,
  children,
  className,
}: {
  title: ReactNode
  aside?: ReactNode
  children: ReactNode
  className?: string
}) {
  return (
    <section className={`panel min-w-0 ${className ?? ''}`}>
      <div className="flex min-h-10 items-center gap-3 border-b px-4 py-1.5">
        <h2 className="font-semibold text-sm">{title}</h2>
        <span className="flex-1" />
        {aside}
      </div>
      {children}
    </section>
  )
}
