import { type ComponentProps, type ReactNode, useId } from 'react'
import { cx } from './cx'

const BOX =
  'w-full rounded-md border border-line-strong bg-surface px-2.5 text-ink text-sm placeholder:text-ink-3 disabled:opacity-60 aria-[invalid=true]:border-bad'

export function Input({ className, ...rest }: ComponentProps<'input'>) {
  return <input autoComplete="off" spellCheck={false} {...rest} className={cx(BOX, 'h-8', className)} />
}

export function TextArea({ className, ...rest }: ComponentProps<'textarea'>) {
  return <textarea spellCheck={false} {...rest} className={cx(BOX, 'py-1.5', className)} />
}

export function Select({ className, ...rest }: ComponentProps<'select'>) {
  return <select {...rest} className={cx(BOX, 'h-8 pr-7', className)} />
}

/** A label, a control, a hint, and the error of the value. The control gets the attributes that screen readers need. */
export function Field({
  label,
  hint,
  error,
  children,
  className,
}: {
  label: ReactNode
  hint?: ReactNode
  error?: string | undefined
  className?: string
  children: (control: { id: string; 'aria-invalid': boolean; 'aria-describedby': string | undefined }) => ReactNode
}) {
  const id = useId()
  const note = error ?? hint
  return (
    <div className={cx('grid gap-1', className)}>
      <label htmlFor={id} className="font-medium text-ink-2 text-xs">
        {label}
      </label>
      {children({
        id,
        'aria-invalid': error !== undefined,
        'aria-describedby': note === undefined ? undefined : `${id}-note`,
      })}
      {note !== undefined && (
        <p
          id={`${id}-note`}
          className={cx('text-xs [overflow-wrap:anywhere]', error === undefined ? 'text-ink-3' : 'text-bad')}
        >
          {note}
        </p>
      )}
    </div>
  )
}

export function Kbd({ children }: { children: ReactNode }) {
  return (
    <kbd className="inline-flex h-5 min-w-5 items-center justify-center rounded-sm border border-line-strong bg-surface px-1 font-sans text-2xs text-ink-2">
      {children}
    </kbd>
  )
}

/** A choice between a few values, shown side by side. */
export function Segments<T extends string>({
  value,
  onChange,
  options,
  label,
}: {
  value: T
  onChange: (value: T) => void
  options: readonly { value: T; label: ReactNode }[]
  label: string
}) {
  return (
    <fieldset className="inline-flex rounded-md border border-line-strong bg-sunken p-0.5">
      <legend className="sr-only">{label}</legend>
      {options.map(option => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
          className={cx(
            'h-6 whitespace-nowrap rounded-sm px-2.5 text-xs',
            option.value === value
              ? 'bg-surface font-medium text-ink shadow-[0_0_0_1px_var(--line-strong)]'
              : 'text-ink-2 hover:text-ink',
          )}
        >
          {option.label}
        </button>
      ))}
    </fieldset>
  )
}
