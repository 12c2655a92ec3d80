import * as Radix from '@radix-ui/react-tooltip'
import type { ReactNode } from 'react'

export const TooltipProvider = Radix.Provider

/** Text on hover and on focus. The child must take a ref: a button, a link, a span. */
export function Tooltip({
  text,
  hint,
  children,
  side = 'top',
}: {
  text: ReactNode
  hint?: ReactNode
  children: ReactNode
  side?: Radix.TooltipContentProps['side']
}) {
  return (
    <Radix.Root>
      <Radix.Trigger asChild>{children}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          side={side}
          sideOffset={6}
          collisionPadding={8}
          className="z-50 max-w-96 animate-fade rounded-md bg-ink px-2 py-1 text-bg text-xs shadow-pop [overflow-wrap:anywhere]"
        >
          {text}
          {hint !== undefined && <span className="ml-2 opacity-70">{hint}</span>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}
