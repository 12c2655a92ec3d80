/** A small line chart without axes. A null value is drawn as a gap. The exact value is shown beside the chart. */
export function Sparkline({
  values,
  label,
  tone = 'text-accent',
  className,
  max,
}: {
  values: readonly (number | null)[]
  label: string
  tone?: string
  className?: string
  max?: number
}) {
  const top = Math.max(max ?? 0, ...values.map(value => value ?? 0)) || 1
  const step = values.length > 1 ? 100 / (values.length - 1) : 0
  const segments: string[] = []
  let open = false
  values.forEach((value, index) => {
    if (value === null) {
      open = false
      return
    }
    segments.push(`${open ? 'L' : 'M'}${(index * step).toFixed(2)} ${(23 - (value / top) * 21).toFixed(2)}`)
    open = true
  })
  const line = segments.join('')
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox="0 0 100 24"
      preserveAspectRatio="none"
      className={`block h-6 w-full ${tone} ${className ?? ''}`}
    >
      <path d="M0 23.5H100" className="stroke-line" strokeWidth={1} vectorEffect="non-scaling-stroke" />
      <path
        d={line}
        fill="none"
        stroke="currentColor"
        strokeWidth={1.5}
        vectorEffect="non-scaling-stroke"
        strokeLinejoin="round"
        strokeLinecap="round"
      />
    </svg>
  )
}
