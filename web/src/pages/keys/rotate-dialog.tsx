import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { ApiKey, NewApiKey } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { ErrorNotice } from '@/components/notices'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { rotateCommands } from './commands'
import { Secret } from './create-dialog'

/** Replaces a key: makes a new one with the same rules, and lets the old one expire after a time of overlap. */
export function RotateDialog({ item, onClose }: { item: ApiKey | null; onClose: () => void }) {
  const [made, setMade] = useState<NewApiKey | null>(null)
  const close = () => {
    setMade(null)
    onClose()
  }
  if (made !== null) return <Secret made={made} onClose={close} />
  return item === null ? null : <Ask item={item} onClose={close} onMade={setMade} />
}

function Ask({ item, onClose, onMade }: { item: ApiKey; onClose: () => void; onMade: (made: NewApiKey) => void }) {
  const [overlap, setOverlap] = useState('1d')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const client = useQueryClient()
  const rotate = async () => {
    setBusy(true)
    setError(null)
    try {
      const made = await request<NewApiKey>('POST', `/v1/api-keys/${item.keyId}/rotate`, { body: { overlap } })
      void client.invalidateQueries({ queryKey: keys.apiKeys })
      onMade(made)
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  const wrong = error instanceof ApiError ? error.at('/overlap') : undefined
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Rotate ${item.name || item.keyId}`}
      footer={
        <>
          <CopyAs commands={() => rotateCommands(item.keyId, overlap)} />
          <span className="flex-1" />
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" busy={busy} onClick={() => void rotate()}>
            Rotate key
          </Button>
        </>
      }
    >
      <form
        className="grid gap-4 text-sm"
        onSubmit={event => {
          event.preventDefault()
          void rotate()
        }}
      >
        <p className="text-ink-2">A new key with the same role and rules is made. Both work until the overlap ends.</p>
        <Field label="Overlap" hint="Such as 30m, 12h or 1d. With 0s the old key stops to work at once." error={wrong}>
          {control => (
            <Input {...control} autoFocus value={overlap} onChange={event => setOverlap(event.target.value)} />
          )}
        </Field>
        {error !== null && wrong === undefined && <ErrorNotice error={error} />}
      </form>
    </Dialog>
  )
}
