import * as Radix from '@radix-ui/react-popover'
import type { ReactNode } from 'react'

export function Popover({
  label,
  trigger,
  children,
  open,
  onOpenChange,
  align = 'start',
}: {
  /** The name for screen readers. */
  label: string
  trigger: ReactNode
  children: ReactNode
  open?: boolean
  onOpenChange?: (open: boolean) => void
  align?: 'start' | 'end'
}) {
  return (
    <Radix.Root {...(open === undefined ? {} : { open })} {...(onOpenChange === undefined ? {} : { onOpenChange })}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          aria-label={label}
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="z-50 max-w-[calc(100vw-1rem)] animate-fade rounded-lg border border-line bg-surface p-3 text-sm shadow-pop"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}
