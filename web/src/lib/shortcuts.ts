import { useEffect, useId, useRef, useSyncExternalStore } from 'react'
import { sequenceStep } from './sequence'

/** Keyboard shortcuts of the page. A component registers its shortcuts while it is mounted; `?` lists them. */

export type Shortcut = { keys: string; label: string; run: () => void; hidden?: boolean }
type Group = { id: string; name: string; shortcuts: readonly Shortcut[] }

let groups: readonly Group[] = []
const listeners = new Set<() => void>()

function change(next: readonly Group[]): void {
  groups = next
  for (const listener of listeners) listener()
}

export function useShortcuts(name: string, shortcuts: readonly Shortcut[]): void {
  const id = useId()
  const latest = useRef(shortcuts)
  useEffect(() => {
    latest.current = shortcuts
  })
  const signature = shortcuts.map(shortcut => `${shortcut.keys}\n${shortcut.label}`).join('\n\n')
  useEffect(() => {
    const fixed = latest.current.map((shortcut, index) => ({ ...shortcut, run: () => latest.current[index]?.run() }))
    change([...groups, { id, name, shortcuts: fixed }])
    return () => change(groups.filter(group => group.id !== id))
  }, [id, name, signature])
}

export function useShortcutGroups(): readonly Group[] {
  return useSyncExternalStore(subscribe, () => groups)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Returns true if a key is a shortcut of the page: it is not typed into a field, and no dialog is open. */
function belongsToPage(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.altKey || event.isComposing) return false
  const target = event.target
  if (!(target instanceof HTMLElement)) return true
  if (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)) return false
  if (event.key === 'Enter' && target.closest('a, button, summary, [role="menuitem"], [role="tab"]') !== null)
    return false
  return !isDialogOpen()
}

function isDialogOpen(): boolean {
  return document.querySelector('[role="dialog"], [role="menu"]') !== null
}

let typed: readonly string[] = []
let typedAt = 0

/** Starts to listen for keys. A later registration has precedence, so a page can override a shortcut of the frame. */
export function startShortcuts(): void {
  window.addEventListener('keydown', event => {
    const withModifier = event.metaKey || event.ctrlKey
    if (withModifier ? isDialogOpen() : !belongsToPage(event)) return
    const key = withModifier ? `Mod+${event.key.toLowerCase()}` : event.key
    const now = Date.now()
    const known = groups.toReversed().flatMap(group => group.shortcuts)
    const step = sequenceStep(
      now - typedAt > 1200 ? [] : typed,
      key,
      known.map(shortcut => shortcut.keys),
    )
    typed = step.typed
    typedAt = now
    if (step.match === null) return
    event.preventDefault()
    known[step.match]?.run()
  })
}
