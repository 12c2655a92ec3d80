/** Computes how many fires a schedule adds to the planned ones, by hour. */

export type Bucket = { from: string; to: string; fires: number; load: number | null }
export type AddedBucket = { at: number; before: number; added: number }

export type Added = {
  buckets: AddedBucket[]
  total: number
  /** The hour with the most fires after the change. */
  peak: AddedBucket | null
  /** True if the list of fires ended before the range did, so that more fires may follow. */
  cut: boolean
}

export function addedLoad(buckets: readonly Bucket[], fires: readonly string[], hours: number, cut: boolean): Added {
  const shown = buckets.slice(0, hours)
  const starts = shown.map(bucket => Date.parse(bucket.from))
  const end = shown.length === 0 ? 0 : Date.parse(shown.at(-1)?.to ?? '')
  const result: AddedBucket[] = shown.map((bucket, at) => ({ at: starts[at] ?? 0, before: bucket.fires, added: 0 }))
  let total = 0
  let last = 0
  for (const fire of fires) {
    const at = Date.parse(fire)
    last = Math.max(last, at)
    if (at >= end) continue
    let index = starts.length - 1
    while (index >= 0 && (starts[index] ?? 0) > at) index--
    const bucket = result[index]
    if (bucket === undefined) continue
    bucket.added++
    total++
  }
  const sum = (bucket: AddedBucket) => bucket.before + bucket.added
  const peak = result.reduce<AddedBucket | null>(
    (most, bucket) => (most === null || sum(bucket) > sum(most) ? bucket : most),
    null,
  )
  return { buckets: result, total, peak, cut: cut && last < end }
}
