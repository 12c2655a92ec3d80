import { useSyncExternalStore } from 'react'
import { advice } from '@/api/problem'
import { Button, IconButton } from './button'
import { Icon } from './icon'

/**
 * Short messages at the bottom of the page. They disappear after some seconds, and later if the pointer is over them.
 */

type Toast = {
  id: number
  kind: 'done' | 'bad'
  text: string
  detail?: string
  action?: { label: string; run: () => void }
}

const TOAST_DURATION_MS = 6000
const MAX_TOASTS = 4

let toasts: Toast[] = []
let lastId = 0
const listeners = new Set<() => void>()
const timers = new Map<number, ReturnType<typeof setTimeout>>()

function change(next: Toast[]): void {
  toasts = next
  for (const listener of listeners) listener()
}

function close(id: number): void {
  clearTimeout(timers.get(id))
  timers.delete(id)
  change(toasts.filter(toast => toast.id !== id))
}

function hold(id: number): void {
  clearTimeout(timers.get(id))
}

function release(id: number): void {
  clearTimeout(timers.get(id))
  timers.set(
    id,
    setTimeout(() => close(id), TOAST_DURATION_MS),
  )
}

function show(toast: Omit<Toast, 'id'>): () => void {
  const id = ++lastId
  change([...toasts, { ...toast, id }].slice(-MAX_TOASTS))
  release(id)
  return () => close(id)
}

export const toast = {
  done: (text: string, action?: Toast['action']) =>
    show({ kind: 'done', text, ...(action === undefined ? {} : { action }) }),
  /** Reports that an action was done, with a button that undoes it while the message is shown. */
  undo: (text: string, undo: () => void) => show({ kind: 'done', text, action: { label: 'Undo', run: undo } }),
  error: (text: string, error: unknown) =>
    show({ kind: 'bad', text, detail: `${error instanceof Error ? error.message : ''} ${advice(error)}`.trim() }),
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts)
  return (
    <section
      aria-label="Messages"
      aria-live="polite"
      className="no-print pointer-events-none fixed right-3 bottom-3 left-3 z-50 flex flex-col items-end gap-2"
    >
      {shown.map(item => (
        <div
          key={item.id}
          onPointerEnter={() => hold(item.id)}
          onPointerLeave={() => release(item.id)}
          className="panel pointer-events-auto flex w-full max-w-md animate-rise items-start gap-2.5 py-2 pr-1.5 pl-3 shadow-pop"
        >
          <Icon
            name={item.kind === 'done' ? 'state-ok' : 'state-bad'}
            className={item.kind === 'done' ? 'mt-1.5 text-ok' : 'mt-1.5 text-bad'}
          />
          <div className="min-w-0 flex-1 py-1 text-sm [overflow-wrap:anywhere]">
            <p>{item.text}</p>
            {item.detail !== undefined && <p className="text-ink-2 text-xs">{item.detail}</p>}
          </div>
          {item.action !== undefined && (
            <Button
              small
              className="mt-0.5"
              onClick={() => {
                item.action?.run()
                close(item.id)
              }}
            >
              {item.action.label}
            </Button>
          )}
          <IconButton label="Close" icon="close" size={14} onClick={() => close(item.id)} />
        </div>
      ))}
    </section>
  )
}
