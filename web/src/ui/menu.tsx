import * as Radix from '@radix-ui/react-dropdown-menu'
import type { ReactNode } from 'react'
import { cx } from './cx'
import { Icon, type IconName } from './icon'

const PANEL =
  'z-50 max-h-[70vh] min-w-44 max-w-[calc(100vw-1rem)] animate-fade overflow-auto rounded-lg border border-line bg-surface p-1 text-sm shadow-pop'
const ITEM =
  'flex cursor-default select-none items-center gap-2 rounded-sm px-2 py-1.5 outline-none data-[disabled]:opacity-50 data-[highlighted]:bg-hover'

export function Menu({
  trigger,
  children,
  align = 'end',
}: {
  trigger: ReactNode
  children: ReactNode
  align?: 'start' | 'end'
}) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content align={align} sideOffset={4} collisionPadding={8} className={PANEL}>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

export function MenuItem({
  icon,
  onSelect,
  children,
  danger = false,
  why,
  hint,
}: {
  icon?: IconName
  onSelect: () => void
  children: ReactNode
  danger?: boolean
  /** The reason why the item is disabled; undefined if it is enabled. */
  why?: string | undefined
  hint?: ReactNode
}) {
  return (
    <Radix.Item className={cx(ITEM, danger && 'text-bad')} disabled={why !== undefined} onSelect={onSelect}>
      {icon && <Icon name={icon} size={14} className="shrink-0 opacity-80" />}
      <span className="min-w-0 flex-1">
        {children}
        {why !== undefined && <span className="block text-2xs text-ink-3">{why}</span>}
      </span>
      {hint !== undefined && <span className="text-ink-3 text-xs">{hint}</span>}
    </Radix.Item>
  )
}

/** A menu with one selected value, which has a check mark. */
export function MenuChoice<T extends string>({
  value,
  onChange,
  options,
}: {
  value: T
  onChange: (value: T) => void
  options: readonly { value: T; label: ReactNode; icon?: IconName }[]
}) {
  return (
    <Radix.RadioGroup value={value} onValueChange={next => onChange(next as T)}>
      {options.map(option => (
        <Radix.RadioItem key={option.value} value={option.value} className={ITEM}>
          {option.icon && <Icon name={option.icon} size={14} className="opacity-80" />}
          <span className="flex-1">{option.label}</span>
          <Radix.ItemIndicator>
            <Icon name="check" size={14} className="text-accent" />
          </Radix.ItemIndicator>
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  )
}

/** A menu item that can be checked beside others. The menu stays open. */
export function MenuCheck({
  checked,
  onChange,
  children,
}: {
  checked: boolean
  onChange: (checked: boolean) => void
  children: ReactNode
}) {
  return (
    <Radix.CheckboxItem
      className={ITEM}
      checked={checked}
      onCheckedChange={onChange}
      onSelect={event => event.preventDefault()}
    >
      <span
        aria-hidden="true"
        className={cx(
          'flex size-4 items-center justify-center rounded-sm border',
          checked ? 'border-accent bg-accent text-on-accent' : 'border-line-strong',
        )}
      >
        {checked && <Icon name="check" size={12} />}
      </span>
      <span className="flex-1">{children}</span>
    </Radix.CheckboxItem>
  )
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <Radix.Label className="label px-2 pt-1.5 pb-1">{children}</Radix.Label>
}

export function MenuLine() {
  return <Radix.Separator className="my-1 h-px bg-line" />
}
