/**
 * At most two live logs per browser, however many tabs are open: a live log holds a connection, and a browser has six
 * per server. A log without a slot asks from time to time.
 */
const SLOTS = ['timeball-live-log-1', 'timeball-live-log-2']

export type Slot = { release: () => void }

/** A free slot, or null. Without locks (a page without TLS that is not local) there are none. */
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
