import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { stored } from '@/lib/storage'
import { Button, IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Field, Input } from '@/ui/field'
import { Popover } from '@/ui/popover'
import { toast } from '@/ui/toast'
import { type RunsSearch, runsSearch } from './search'

type View = { name: string; search: RunsSearch }

const BUILT_IN: readonly View[] = [
  { name: 'All', search: {} },
  { name: 'Active', search: { status: ['queued', 'running', 'retrying', 'blocked'] } },
  { name: 'Failed', search: { status: ['failed', 'dead'] } },
  { name: 'Skipped', search: { status: ['skipped', 'cancelled'] } },
]

const saved = stored<View[]>(
  'runs.views',
  [],
  (value): value is View[] =>
    Array.isArray(value) &&
    value.every(item => typeof item === 'object' && item !== null && 'name' in item && 'search' in item),
)

const MAX_SAVED_VIEWS = 20

/** Named filters: the predefined ones, and those that the user saved in this browser. */
export function ViewBar({ search }: { search: RunsSearch }) {
  const own = saved.use()
  const here = keyOf(search)
  const isKnown = [...BUILT_IN, ...own].some(view => keyOf(view.search) === here)
  const remove = (view: View) => {
    const before = saved.get()
    saved.set(before.filter(item => item !== view))
    toast.undo(`Removed the view “${view.name}”`, () => saved.set(before))
  }
  return (
    <nav aria-label="Views" className="-mx-1 flex h-9 items-center gap-1 overflow-x-auto px-1">
      {BUILT_IN.map(view => (
        <Tab key={view.name} view={view} isHere={keyOf(view.search) === here} />
      ))}
      {own.length > 0 && <span aria-hidden="true" className="mx-1 h-4 w-px bg-line-strong" />}
      {own.map(view => (
        <span key={view.name} className="group inline-flex items-center">
          <Tab view={view} isHere={keyOf(view.search) === here} />
          {keyOf(view.search) === here && (
            <IconButton
              label={`Remove the view ${view.name}`}
              icon="trash"
              size={13}
              className="size-7"
              onClick={() => remove(view)}
            />
          )}
        </span>
      ))}
      {!isKnown && <SaveView search={search} taken={own.map(view => view.name)} />}
    </nav>
  )
}

function Tab({ view, isHere }: { view: View; isHere: boolean }) {
  return (
    <Link
      to="/runs"
      search={runsSearch(view.search)}
      aria-current={isHere ? 'page' : undefined}
      className={cx(
        'whitespace-nowrap rounded-md px-2.5 py-1 text-sm',
        isHere ? 'bg-hover font-medium text-ink' : 'text-ink-2 hover:bg-hover hover:text-ink',
      )}
    >
      {view.name}
    </Link>
  )
}

function SaveView({ search, taken }: { search: RunsSearch; taken: readonly string[] }) {
  const [open, setOpen] = useState(false)
  const [name, setName] = useState('')
  const error = taken.includes(name.trim()) ? 'This name is taken.' : undefined
  return (
    <Popover
      label="Save view"
      open={open}
      onOpenChange={setOpen}
      trigger={
        <Button small look="quiet" icon="save">
          Save view
        </Button>
      }
    >
      <form
        className="grid w-64 gap-3"
        onSubmit={event => {
          event.preventDefault()
          const text = name.trim()
          if (text === '' || error !== undefined) return
          saved.set([...saved.get(), { name: text, search }].slice(-MAX_SAVED_VIEWS))
          setOpen(false)
          setName('')
        }}
      >
        <Field label="Name" hint="The view is kept in this browser. Its address works everywhere." error={error}>
          {control => (
            <Input {...control} value={name} maxLength={40} onChange={event => setName(event.target.value)} />
          )}
        </Field>
        <Button small look="primary" type="submit" className="justify-self-end">
          Save
        </Button>
      </form>
    </Popover>
  )
}

function keyOf(search: RunsSearch): string {
  const clean = runsSearch(search)
  return JSON.stringify(Object.entries(clean).sort(([one], [other]) => one.localeCompare(other)))
}
