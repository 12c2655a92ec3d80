import { useEffect, useState } from 'react'
import type { Commands } from '@/lib/quote'
import { Button, IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'
import { Menu, MenuItem, MenuLabel } from '@/ui/menu'
import { toast } from '@/ui/toast'

export async function copyText(text: string, what = 'Copied'): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    toast.done(what)
  } catch {
    // The browser offers no clipboard to pages without TLS, so the text is copied from a hidden text field.
    const area = document.createElement('textarea')
    area.value = text
    area.setAttribute('aria-hidden', 'true')
    area.className = 'fixed top-0 left-0 opacity-0'
    document.body.append(area)
    area.select()
    const done = document.execCommand('copy')
    area.remove()
    if (done) toast.done(what)
    else toast.error('The browser does not allow to copy', new Error('Select the text by hand.'))
  }
}

/** A command on one line, with a button that copies it. */
export function CopyText({ text, className }: { text: string; className?: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 1500)
    return () => clearTimeout(timer)
  }, [copied])
  return (
    <div
      className={cx(
        'inline-flex min-w-0 items-center gap-2 rounded-md border bg-sunken py-1 pr-1 pl-3 text-left',
        className,
      )}
    >
      {/* With the keyboard, only what has the focus can be scrolled. */}
      <code tabIndex={0} className="min-w-0 flex-1 overflow-x-auto whitespace-pre font-mono text-xs">
        {text}
      </code>
      <Button
        small
        look="quiet"
        icon={copied ? 'check' : 'copy'}
        onClick={() => void copyText(text).then(() => setCopied(true))}
      >
        Copy
      </Button>
    </div>
  )
}

/** An id in monospace. A click copies it. */
export function CopyId({ id, className }: { id: string; className?: string }) {
  return (
    <button
      type="button"
      title="Copy"
      onClick={() => void copyText(id, `Copied ${id}`)}
      className={cx(
        'group inline-flex max-w-full items-center gap-1 rounded-sm font-mono text-xs hover:text-accent',
        className,
      )}
    >
      <span className="truncate">{id}</span>
      <Icon
        name="copy"
        size={12}
        className="shrink-0 opacity-0 group-hover:opacity-100 group-focus-visible:opacity-100"
      />
    </button>
  )
}

/** A menu that copies the command for an action, for a terminal or a script. Each action has one. */
export function CopyAs({
  commands,
  label = 'Copy as a command',
  text = false,
}: {
  commands: () => Commands
  label?: string
  text?: boolean
}) {
  const entry = (name: string, pick: (made: Commands) => string | null) => (
    <MenuItem
      icon="copy"
      onSelect={() => {
        const made = pick(commands())
        if (made !== null) void copyText(made, `Copied as ${name}`)
      }}
    >
      {name}
    </MenuItem>
  )
  const made = commands()
  return (
    <Menu
      trigger={
        text ? (
          <Button icon="terminal" look="quiet" small>
            {label}
          </Button>
        ) : (
          <IconButton label={label} icon="terminal" />
        )
      }
    >
      <MenuLabel>Copy as</MenuLabel>
      {made.cli !== null && entry('command line', it => it.cli)}
      {entry('curl', it => it.curl)}
      {made.python !== null && entry('Python', it => it.python)}
    </Menu>
  )
}
