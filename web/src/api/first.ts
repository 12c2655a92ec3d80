/**
 * The first request of a page goes alone: what it answers is shown before the rest is asked for. A page that opens thus
 * makes four requests until it shows data (document, script, style, data), however much else it will load.
 */

/** If the first answer takes longer than this, the others start beside it. */
const FIRST_ANSWER_TIMEOUT_MS = 1500

type Pass = { wait: Promise<void> | null; leave: () => void }

class FirstData {
  #state: 'before' | 'asked' | 'shown' = 'before'
  #open: () => void = () => {}
  readonly shown = new Promise<void>(resolve => {
    this.#open = resolve
  })

  enter(): Pass {
    if (this.#state === 'shown') return { wait: null, leave: () => {} }
    if (this.#state === 'asked') return { wait: this.shown, leave: () => {} }
    this.#state = 'asked'
    const late = setTimeout(() => this.#show(), FIRST_ANSWER_TIMEOUT_MS)
    return {
      wait: null,
      leave: () => {
        clearTimeout(late)
        // A moment for React to render the answer and for the browser to paint it.
        setTimeout(() => this.#show(), 32)
      },
    }
  }

  #show(): void {
    this.#state = 'shown'
    this.#open()
  }
}

export const firstDataShown = new FirstData()
