import * as Radix from '@radix-ui/react-tabs'
import type { ReactNode } from 'react'

/** Tabs below a heading. The page stores the selected tab in the address, so that links can refer to it. */
export function Tabs<T extends string>({
  value,
  onChange,
  tabs,
  children,
  label,
}: {
  value: T
  onChange: (value: T) => void
  tabs: readonly { value: T; label: ReactNode }[]
  children: ReactNode
  label: string
}) {
  return (
    <Radix.Root value={value} onValueChange={next => onChange(next as T)} className="flex min-h-0 flex-1 flex-col">
      <Radix.List aria-label={label} className="no-print flex shrink-0 gap-4 overflow-x-auto border-b">
        {tabs.map(tab => (
          <Radix.Trigger
            key={tab.value}
            value={tab.value}
            className="-mb-px whitespace-nowrap border-transparent border-b-2 py-2 text-ink-2 text-sm hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {children}
    </Radix.Root>
  )
}

export const TabPanel = Radix.Content
