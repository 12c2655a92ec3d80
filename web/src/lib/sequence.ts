/** Recognizes sequences of keys, such as `g j`. Pure functions. */

export type Step = { typed: readonly string[]; match: number | null }

/**
 * Returns the effect of one more key. `known` are sequences such as `g j` or `Mod+k`; the first one that matches is
 * used. `typed` in the result is the beginning of a sequence, which the caller keeps for the next key.
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
