import { restartEvents } from '@/events/hub'
import { baseUrl } from '@/lib/url'

/** A change of the account concerns every tab: what they have read belongs to the old one. */
const channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('timeball-account')

export function followAccount(): void {
  if (channel !== null) channel.onmessage = () => window.location.reload()
}

/** Opens a page anew after a sign-in or a sign-out, here and in the other tabs. */
export function enter(path: string): void {
  restartEvents()
  channel?.postMessage('changed')
  window.location.assign(baseUrl().pathname.replace(/\/$/, '') + path)
}
