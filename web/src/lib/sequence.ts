/** Sequences of keys, such as `g j`. Pure. */

export type Step = { typed: readonly string[]; match: number | null }

/**
 * What one more key means. `known` are sequences written as `g j` or `Mod+k`; the first that matches wins. `typed` is
 * what has to be remembered for the next key: the beginning of a sequence, or nothing.
 */
export function sequenceStep(typed: readonly string[], key: string, known: readonly string[]): Step {
  for (const before of typed.length > 0 ? [typed, []] : [typed]) {
    const now = [...before, key]
    const text = now.join(' ')
    const match = known.indexOf(text)
    if (match >= 0) return { typed: [], match }
    if (known.some(sequence => sequence.startsWith(`${text} `))) return { typed: now, match: null }
  }
  return { typed: [], match: null }
}
