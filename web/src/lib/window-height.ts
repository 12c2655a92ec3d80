import { useSyncExternalStore } from 'react'

function subscribe(changed: () => void): () => void {
  window.addEventListener('resize', changed)
  return () => window.removeEventListener('resize', changed)
}

/** Returns the height of the window, for parts of a page that use the space that a tall window has. */
export function useWindowHeight(): number {
  return useSyncExternalStore(subscribe, () => window.innerHeight)
}
