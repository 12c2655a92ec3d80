import { restartEvents } from '@/events/hub'
import { baseUrl } from '@/lib/url'

/**
 * Tells the other tabs of this browser that the signed-in account changed. They reload, because their data belongs to
 * the old account.
 */
const channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('timeball-account')

export function followAccount(): void {
  if (channel !== null) channel.onmessage = () => window.location.reload()
}

/** Loads the page at `path` after a sign-in or a sign-out, and makes the other tabs reload. */
export function enter(path: string): void {
  leave(baseUrl().pathname.replace(/\/$/, '') + path)
}

/** Loads another page after a sign-out, such as that of the identity provider, and makes the other tabs reload. */
export function leave(url: string): void {
  restartEvents()
  channel?.postMessage('changed')
  window.location.assign(url)
}
