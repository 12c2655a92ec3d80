/**
 * The element that had the focus before a dialog or a menu opened. For a dialog that a menu opened, this is the button
 * of the menu.
 */
let before: HTMLElement | null = null

export function followFocus(): void {
  document.addEventListener('focusin', ({ target }) => {
    if (target instanceof HTMLElement && target.closest('[role="dialog"], [role="menu"]') === null) before = target
  })
}

/**
 * Returns the focus to the previous element; for `onCloseAutoFocus`. Radix itself returns the focus only to its own
 * triggers.
 */
export function returnFocus(event: Event): void {
  event.preventDefault()
  if (before?.isConnected === true) before.focus()
}
