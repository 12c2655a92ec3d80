/**
 * Sends the first request of a page alone, and shows its answer before the other requests are sent. So a page needs
 * four requests until it shows data (document, script, style, data), however many more it sends later.
 */

/** Maximum time that the other requests wait for the first answer. */
const FIRST_ANSWER_TIMEOUT_MS = 1500

const PAINT_DELAY_MS = 120

type Pass = { wait: Promise<void> | null; leave: () => void }

class FirstData {
  #state: 'before' | 'asked' | 'shown' = 'before'
  #open: () => void = () => {}
  readonly shown = new Promise<void>(resolve => {
    this.#open = resolve
  })

  constructor() {
    // If a page sends no first request, its later requests are sent after this time.
    setTimeout(() => {
      if (this.#state === 'before') this.#show()
    }, FIRST_ANSWER_TIMEOUT_MS)
  }

  /** A request with `isLater` never counts as the first one, because the page can be shown without its answer. */
  enter(isLater: boolean): Pass {
    if (this.#state === 'shown') return { wait: null, leave: () => {} }
    if (this.#state === 'asked' || isLater) return { wait: this.shown, leave: () => {} }
    this.#state = 'asked'
    const late = setTimeout(() => this.#show(), FIRST_ANSWER_TIMEOUT_MS)
    return {
      wait: null,
      leave: () => {
        clearTimeout(late)
        // React renders the answer and the browser paints it in this time. A hidden tab paints nothing.
        setTimeout(() => this.#show(), document.hidden ? 0 : PAINT_DELAY_MS)
      },
    }
  }

  #show(): void {
    this.#state = 'shown'
    this.#open()
  }
}

export const firstDataShown = new FirstData()
