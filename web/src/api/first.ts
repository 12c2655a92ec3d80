/**
 * The first request of a page goes alone: what it answers is shown before the rest is asked for. A page that opens thus
 * makes four requests until it shows data (document, script, style, data), however much else it will load.
 */

/** If the first answer takes longer than this, the others start beside it. */
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
    // A page may have nothing to ask for.
    setTimeout(() => {
      if (this.#state === 'before') this.#show()
    }, FIRST_ANSWER_TIMEOUT_MS)
  }

  /** `isLater`: never the first, because the page can be shown without its answer. */
  enter(isLater: boolean): Pass {
    if (this.#state === 'shown') return { wait: null, leave: () => {} }
    if (this.#state === 'asked' || isLater) return { wait: this.shown, leave: () => {} }
    this.#state = 'asked'
    const late = setTimeout(() => this.#show(), FIRST_ANSWER_TIMEOUT_MS)
    return {
      wait: null,
      leave: () => {
        clearTimeout(late)
        // A moment for React to render the answer and for the browser to paint it. A hidden tab paints nothing.
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
