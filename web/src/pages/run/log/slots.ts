/**
 * Limits a browser to two live logs over all its tabs, because each live log uses one of the six connections per
 * server. A log without a slot is fetched every few seconds.
 */
const SLOTS = ['timeball-live-log-1', 'timeball-live-log-2']

export type Slot = { release: () => void }

/**
 * Takes a free slot; null if there is none. A page without TLS on another host than localhost has no browser locks, and
 * so no slots.
 */
export async function takeSlot(): Promise<Slot | null> {
  if (navigator.locks === undefined) return null
  for (const name of SLOTS) {
    const slot = await lock(name)
    if (slot !== null) return slot
  }
  return null
}

function lock(name: string): Promise<Slot | null> {
  return new Promise(resolve => {
    void navigator.locks
      .request(name, { ifAvailable: true }, held => {
        if (held === null) {
          resolve(null)
          return undefined
        }
        return new Promise<void>(release => resolve({ release }))
      })
      .catch(() => resolve(null))
  })
}
