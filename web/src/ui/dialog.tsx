import * as Radix from '@radix-ui/react-dialog'
import type { ReactNode } from 'react'
import { cx } from './cx'
import { returnFocus } from './focus'
import { Icon } from './icon'

type Props = {
  open: boolean
  onClose: () => void
  title: ReactNode
  /** One sentence below the title. */
  description?: ReactNode
  children?: ReactNode
  /** The buttons. The one that executes the action is the last. */
  footer?: ReactNode
  wide?: boolean
}

/**
 * A dialog in the middle of the page. It keeps the focus inside, closes with Escape, and then returns the focus to the
 * previous element.
 */
export function Dialog({ open, onClose, title, description, children, footer, wide = false }: Props) {
  return (
    <Radix.Root open={open} onOpenChange={next => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 animate-fade bg-ink/35 dark:bg-sunken/70" />
        <Radix.Content
          onOpenAutoFocus={focusContent}
          onCloseAutoFocus={returnFocus}
          {...(description === undefined ? { 'aria-describedby': undefined } : {})}
          className={cx(
            'fixed top-[12vh] left-1/2 z-50 flex max-h-[76vh] w-[calc(100vw-1.5rem)] -translate-x-1/2 flex-col outline-none rounded-lg border border-line bg-surface shadow-pop',
            wide ? 'max-w-3xl' : 'max-w-lg',
          )}
        >
          <Header title={title} description={description} onClose={onClose} />
          <div className="min-h-0 flex-1 overflow-auto px-5 py-4">{children}</div>
          {footer !== undefined && <div className="flex flex-wrap justify-end gap-2 border-t px-5 py-3">{footer}</div>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

/** A dialog at the right edge with the full height, for details beside a list. */
export function Drawer({ open, onClose, title, description, children, footer, wide = false }: Props) {
  return (
    <Radix.Root open={open} onOpenChange={next => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 animate-fade bg-ink/25 dark:bg-sunken/60" />
        <Radix.Content
          onOpenAutoFocus={focusContent}
          onCloseAutoFocus={returnFocus}
          {...(description === undefined ? { 'aria-describedby': undefined } : {})}
          className={cx(
            'fixed inset-y-0 right-0 z-50 flex w-full animate-slide flex-col outline-none border-line border-l bg-surface shadow-pop',
            wide ? 'max-w-3xl' : 'max-w-lg',
          )}
        >
          <Header title={title} description={description} onClose={onClose} />
          <div className="min-h-0 flex-1 overflow-auto px-5 py-4">{children}</div>
          {footer !== undefined && <div className="flex flex-wrap justify-end gap-2 border-t px-5 py-3">{footer}</div>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

/** Focuses the dialog unless one of its fields has `autoFocus`, so that no button is pressed by accident. */
function focusContent(event: Event): void {
  event.preventDefault()
  const content = event.currentTarget
  if (content instanceof HTMLElement && !content.contains(document.activeElement)) content.focus()
}

function Header({ title, description, onClose }: { title: ReactNode; description?: ReactNode; onClose: () => void }) {
  return (
    <div className="flex items-center gap-3 border-b px-5 py-2.5">
      <div className="min-w-0 flex-1">
        <Radix.Title className="font-semibold text-lg [overflow-wrap:anywhere]">{title}</Radix.Title>
        {description !== undefined && (
          <Radix.Description className="text-ink-2 text-sm">{description}</Radix.Description>
        )}
      </div>
      {/* The button has no tooltip, because Escape would close the tooltip before the dialog. */}
      <button
        type="button"
        aria-label="Close"
        onClick={onClose}
        className="-mr-2 inline-flex size-8 shrink-0 items-center justify-center rounded-md text-ink-2 hover:bg-hover hover:text-ink"
      >
        <Icon name="close" />
      </button>
    </div>
  )
}
