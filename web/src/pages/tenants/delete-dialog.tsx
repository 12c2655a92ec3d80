import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { Tenant } from '@/api/types'
import { ConfirmDialog } from '@/components/confirm'
import { Field, Input } from '@/ui/field'
import { toast } from '@/ui/toast'
import { deleteCommands } from './limits'

/** Deletes the given tenant, after the user has entered its id. */
export function DeleteDialog({ tenant, onClose }: { tenant: Tenant | null; onClose: () => void }) {
  if (tenant === null) return null
  return <Confirm key={tenant.tenantId} tenantId={tenant.tenantId} onClose={onClose} />
}

function Confirm({ tenantId, onClose }: { tenantId: string; onClose: () => void }) {
  const [entered, setEntered] = useState('')
  const client = useQueryClient()
  const remove = async () => {
    await api.delete('/v1/tenants/{tenantId}', { path: { tenantId } })
    await client.invalidateQueries({ queryKey: keys.tenants })
    toast.done(`${tenantId} is being deleted`)
  }
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Delete ${tenantId}?`}
      action="Delete tenant"
      danger
      ready={entered === tenantId}
      onConfirm={remove}
      commands={() => deleteCommands(tenantId)}
    >
      <p>
        Its credentials are refused, its runs are cancelled, and everything it owns is deleted: jobs, runs, output,
        users, keys, archived runs and its audit log. This cannot be undone, and the id cannot be used again.
      </p>
      <Field label="Enter the id of the tenant">
        {control => (
          <Input {...control} autoFocus value={entered} onChange={event => setEntered(event.target.value.trim())} />
        )}
      </Field>
    </ConfirmDialog>
  )
}
