import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { NewApiKey } from '@/api/types'
import { CopyAs, CopyText } from '@/components/copy'
import { ErrorNotice } from '@/components/notices'
import { ROLES, type Role, RoleChoice } from '@/components/role-badge'
import { baseUrl } from '@/lib/url'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { Icon } from '@/ui/icon'
import { createCommands, keyBody } from './commands'
import { commandWith } from './keys'

const NAMES = Object.keys(ROLES) as Role[]

/** Creates an API key, and shows its secret once. */
export function CreateDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [made, setMade] = useState<NewApiKey | null>(null)
  const close = () => {
    setMade(null)
    onClose()
  }
  if (made !== null) return <Secret made={made} onClose={close} />
  return <Ask open={open} onClose={close} onMade={setMade} />
}

function Ask({ open, onClose, onMade }: { open: boolean; onClose: () => void; onMade: (made: NewApiKey) => void }) {
  const [role, setRole] = useState<Role>('worker')
  const [name, setName] = useState('')
  const [expires, setExpires] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const client = useQueryClient()
  const create = async () => {
    setBusy(true)
    setError(null)
    try {
      const made = await request<NewApiKey>('POST', '/v1/api-keys', { body: keyBody(role, name, expires) })
      void client.invalidateQueries({ queryKey: keys.apiKeys })
      setName('')
      onMade(made)
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  const wrongName = error instanceof ApiError ? error.at('/name') : undefined
  const wrongExpiry = error instanceof ApiError ? error.at('/expiresAt') : undefined
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="New API key"
      footer={
        <>
          <CopyAs commands={() => createCommands(keyBody(role, name, expires))} />
          <span className="flex-1" />
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" busy={busy} onClick={() => void create()}>
            Create key
          </Button>
        </>
      }
    >
      <form
        className="grid gap-4"
        onSubmit={event => {
          event.preventDefault()
          void create()
        }}
      >
        <Field label="Name" hint="What it is for. Lists and the versions of jobs show it." error={wrongName}>
          {control => (
            <Input
              {...control}
              autoFocus
              maxLength={200}
              placeholder="rack 3"
              value={name}
              onChange={event => setName(event.target.value)}
            />
          )}
        </Field>
        <RoleChoice roles={NAMES} value={role} onChange={setRole} />
        <Field label="Expires" hint="Empty: never. Rotate the key before it expires." error={wrongExpiry}>
          {control => (
            <Input {...control} type="date" value={expires} onChange={event => setExpires(event.target.value)} />
          )}
        </Field>
        {error !== null && wrongName === undefined && wrongExpiry === undefined && <ErrorNotice error={error} />}
      </form>
    </Dialog>
  )
}

/** Shows the secret of a new key, which no later answer contains. */
export function Secret({ made, onClose }: { made: NewApiKey; onClose: () => void }) {
  return (
    <Dialog
      open
      onClose={onClose}
      title="Store this key now"
      footer={
        <Button look="primary" onClick={onClose}>
          I have stored it
        </Button>
      }
    >
      <div className="grid gap-4 text-sm">
        <p className="flex items-start gap-2 rounded-md bg-late-soft px-3 py-2">
          <Icon name="warning" size={16} className="mt-0.5 shrink-0 text-late-ink" />
          It is not shown again: Timeball keeps only a digest of it. If it is lost, revoke it and make another one.
        </p>
        <div className="grid gap-1">
          <p className="font-medium text-ink-2 text-xs">
            {ROLES[made.role].label} key{made.name !== '' && ` “${made.name}”`}
          </p>
          <CopyText text={made.key} className="w-full" />
        </div>
        <div className="grid gap-1">
          <p className="font-medium text-ink-2 text-xs">With the key in a file {made.role}.key</p>
          <CopyText text={commandWith(made.role, baseUrl().href.replace(/\/$/, ''))} className="w-full" />
        </div>
      </div>
    </Dialog>
  )
}
