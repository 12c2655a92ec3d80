import type { ComponentProps, ReactNode } from 'react'
import { cx } from './cx'
import { Icon, type IconName } from './icon'
import { Tooltip } from './tooltip'

type Look = 'plain' | 'primary' | 'quiet' | 'danger'

const LOOKS: Record<Look, string> = {
  plain: 'border border-line-strong bg-surface text-ink hover:bg-hover',
  primary: 'border border-transparent bg-accent text-on-accent hover:brightness-110',
  quiet: 'border border-transparent text-ink-2 hover:bg-hover hover:text-ink',
  danger: 'border border-transparent bg-bad text-surface hover:brightness-110 dark:text-sunken',
}

export type ButtonProps = ComponentProps<'button'> & {
  look?: Look
  icon?: IconName
  small?: boolean
  busy?: boolean
  /**
   * The reason why the button is disabled, shown as a tooltip and read by screen readers; undefined if it is enabled.
   */
  why?: string | undefined
}

export function Button({
  look = 'plain',
  icon,
  small = false,
  busy = false,
  why,
  className,
  children,
  disabled,
  ...rest
}: ButtonProps) {
  const blocked = why !== undefined
  const button = (
    <button
      type="button"
      {...rest}
      {...(blocked ? { 'aria-disabled': true, onClick: event => event.preventDefault() } : {})}
      disabled={disabled === true || busy}
      className={cx(
        'inline-flex shrink-0 select-none items-center justify-center gap-1.5 whitespace-nowrap rounded-md font-medium transition-colors',
        small ? 'h-7 px-2 text-xs' : 'h-8 px-3 text-sm',
        LOOKS[look],
        (blocked || disabled === true || busy) && 'opacity-55',
        className,
      )}
    >
      {busy ? <Icon name="retry" size={14} className="animate-turn" /> : icon && <Icon name={icon} size={14} />}
      {children}
    </button>
  )
  return blocked ? <Tooltip text={why}>{button}</Tooltip> : button
}

/** A button with only an icon. `label` is its accessible name and its tooltip. */
export function IconButton({
  label,
  icon,
  look = 'quiet',
  className,
  size = 16,
  hint,
  ...rest
}: Omit<ComponentProps<'button'>, 'children'> & {
  label: string
  icon: IconName
  look?: Look
  size?: number
  hint?: ReactNode
}) {
  return (
    <Tooltip text={label} hint={hint}>
      <button
        type="button"
        aria-label={label}
        {...rest}
        className={cx(
          'inline-flex size-8 shrink-0 items-center justify-center rounded-md transition-colors disabled:opacity-50',
          LOOKS[look],
          className,
        )}
      >
        <Icon name={icon} size={size} />
      </button>
    </Tooltip>
  )
}

/** A button with an icon for rows of long lists. It uses the browser's tooltip, which needs no component per row. */
export function RowButton({
  label,
  icon,
  className,
  ...rest
}: Omit<ComponentProps<'button'>, 'children'> & { label: string; icon: IconName }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      {...rest}
      className={cx(
        'inline-flex size-7 shrink-0 items-center justify-center rounded-md text-ink-2 opacity-0 hover:bg-surface hover:text-ink focus-visible:opacity-100 group-hover/row:opacity-100',
        className,
      )}
    >
      <Icon name={icon} size={14} />
    </button>
  )
}
