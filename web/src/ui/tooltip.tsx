import * as Radix from '@radix-ui/react-tooltip'
import type { ReactNode } from 'react'

export const TooltipProvider = Radix.Provider

/** A tooltip on hover and on focus. Its child must accept a ref, as a button, a link or a span does. */
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
