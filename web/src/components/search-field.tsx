import { useEffect, useState } from 'react'
import { Input } from '@/ui/field'

/** A search field. It applies the text a moment after the last key. The key `/` focuses it. */
export function SearchField({
  value,
  onChange,
  label,
  placeholder,
}: {
  value: string | undefined
  onChange: (value: string | undefined) => void
  label: string
  placeholder: string
}) {
  const [draft, setDraft] = useState(value ?? '')
  useEffect(() => {
    const wanted = draft.trim() === '' ? undefined : draft.trim()
    if (wanted === value) return
    const timer = setTimeout(() => onChange(wanted), 150)
    return () => clearTimeout(timer)
  }, [draft, value, onChange])
  return (
    <Input
      data-search
      type="search"
      aria-label={label}
      placeholder={placeholder}
      value={draft}
      onChange={event => setDraft(event.target.value)}
      className="max-w-72"
    />
  )
}
