/** What had the focus before a dialog or a menu took it. A dialog that a menu opened returns it to the menu's button. */
let before: HTMLElement | null = null

export function followFocus(): void {
  document.addEventListener('focusin', ({ target }) => {
    if (target instanceof HTMLElement && target.closest('[role="dialog"], [role="menu"]') === null) before = target
  })
}

/** For `onCloseAutoFocus`. Radix itself returns the focus only to a button that it has made a trigger. */
export function returnFocus(event: Event): void {
  event.preventDefault()
  if (before?.isConnected === true) before.focus()
}
