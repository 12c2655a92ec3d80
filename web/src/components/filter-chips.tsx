import { type ReactNode, useState } from 'react'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Input } from '@/ui/field'
import { Icon } from '@/ui/icon'
import { Menu, MenuCheck, MenuLabel } from '@/ui/menu'
import { Popover } from '@/ui/popover'

/** One filter of a list. The page stores its value in the address, passes it as a property and receives changes. */
export type Filter =
  | {
      kind: 'many'
      name: string
      label: string
      values: readonly string[]
      options: readonly { value: string; label: ReactNode; text: string }[]
      onChange: (values: string[]) => void
    }
  | {
      kind: 'text'
      name: string
      label: string
      value: string | undefined
      placeholder?: string
      hint?: string
      suggestions?: readonly string[]
      onChange: (value: string | undefined) => void
    }

/**
 * One chip per filter. A chip is an outline while the filter is unused. Otherwise it shows the value, and a button that
 * clears it.
 */
export function FilterChips({ filters, onClear }: { filters: readonly Filter[]; onClear?: () => void }) {
  const used = filters.some(isUsed)
  return (
    <fieldset className="flex items-center gap-1.5 sm:flex-wrap">
      <legend className="sr-only">Filters</legend>
      {filters.map(filter =>
        filter.kind === 'many' ? (
          <ManyChip key={filter.name} filter={filter} />
        ) : (
          <TextChip key={filter.name} filter={filter} />
        ),
      )}
      {used && onClear !== undefined && (
        <Button small look="quiet" onClick={onClear}>
          Clear
        </Button>
      )}
    </fieldset>
  )
}

function isUsed(filter: Filter): boolean {
  return filter.kind === 'many' ? filter.values.length > 0 : filter.value !== undefined
}

/** A chip for one filter. Filters with an editor of their own use it as well. */
export function Chip({
  label,
  value,
  onClear,
  ...rest
}: { label: string; value: string | null; onClear: () => void } & Omit<React.ComponentProps<'button'>, 'value'>) {
  return (
    <span
      className={cx(
        'inline-flex h-7 max-w-full shrink-0 items-center rounded-full border text-xs',
        value === null ? 'border-line-strong border-dashed text-ink-2' : 'border-accent bg-accent-soft',
      )}
    >
      <button
        type="button"
        {...rest}
        className="flex h-full min-w-0 items-center gap-1 rounded-full pr-2 pl-2.5 hover:text-ink"
      >
        {value === null && <Icon name="plus" size={12} />}
        <span className={cx(value !== null && 'text-ink-2')}>{label}</span>
        {value !== null && <span className="max-w-60 truncate font-medium">{value}</span>}
      </button>
      {value !== null && (
        <button
          type="button"
          aria-label={`Clear filter ${label}`}
          onClick={onClear}
          className="flex h-full items-center rounded-full pr-2 pl-0.5 text-ink-2 hover:text-ink"
        >
          <Icon name="close" size={12} />
        </button>
      )}
    </span>
  )
}

function ManyChip({ filter }: { filter: Filter & { kind: 'many' } }) {
  const texts = filter.options.filter(option => filter.values.includes(option.value)).map(option => option.text)
  const value =
    texts.length === 0
      ? null
      : texts.length > 3
        ? `${texts.slice(0, 2).join(', ')} +${texts.length - 2}`
        : texts.join(', ')
  return (
    <Menu align="start" trigger={<Chip label={filter.label} value={value} onClear={() => filter.onChange([])} />}>
      <MenuLabel>{filter.label}</MenuLabel>
      {filter.options.map(option => (
        <MenuCheck
          key={option.value}
          checked={filter.values.includes(option.value)}
          onChange={checked =>
            filter.onChange(
              checked ? [...filter.values, option.value] : filter.values.filter(value => value !== option.value),
            )
          }
        >
          {option.label}
        </MenuCheck>
      ))}
    </Menu>
  )
}

function TextChip({ filter }: { filter: Filter & { kind: 'text' } }) {
  const [open, setOpen] = useState(false)
  const listId = `filter-${filter.name}`
  return (
    <Popover
      label={`Filter by ${filter.label.toLowerCase()}`}
      open={open}
      onOpenChange={setOpen}
      trigger={<Chip label={filter.label} value={filter.value ?? null} onClear={() => filter.onChange(undefined)} />}
    >
      <form
        className="grid w-72 max-w-full gap-2"
        onSubmit={event => {
          event.preventDefault()
          const value = new FormData(event.currentTarget).get('value')
          filter.onChange(typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined)
          setOpen(false)
        }}
      >
        <label className="grid gap-1">
          <span className="font-medium text-ink-2 text-xs">{filter.label}</span>
          <Input
            name="value"
            defaultValue={filter.value ?? ''}
            placeholder={filter.placeholder}
            maxLength={200}
            list={filter.suggestions === undefined ? undefined : listId}
          />
        </label>
        {filter.suggestions !== undefined && (
          <datalist id={listId}>
            {filter.suggestions.map(item => (
              <option key={item} value={item} />
            ))}
          </datalist>
        )}
        {filter.hint !== undefined && <p className="text-ink-3 text-xs">{filter.hint}</p>}
        <div className="flex justify-end">
          <Button small look="primary" type="submit">
            Apply
          </Button>
        </div>
      </form>
    </Popover>
  )
}
