import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { Tenant } from '@/api/types'
import { CopyAs } from '@/components/copy'
import { ErrorNotice } from '@/components/notices'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { Field, Input } from '@/ui/field'
import { toast } from '@/ui/toast'
import { changeCommands, createCommands, formOf, LIMITS, limitsOf, type TenantForm, wrongLimits } from './limits'

/** Creates a tenant, or changes the given one. */
export function TenantDialog({ tenant, onClose }: { tenant: Tenant | 'new' | null; onClose: () => void }) {
  if (tenant === null) return null
  return (
    <Form key={tenant === 'new' ? '' : tenant.tenantId} tenant={tenant === 'new' ? null : tenant} onClose={onClose} />
  )
}

function Form({ tenant, onClose }: { tenant: Tenant | null; onClose: () => void }) {
  const [form, setForm] = useState<TenantForm>({
    tenantId: tenant?.tenantId ?? '',
    name: tenant?.name ?? '',
    description: tenant?.description ?? '',
    limits: formOf(tenant?.limits ?? {}),
  })
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const client = useQueryClient()
  const set = (change: Partial<TenantForm>) => setForm(before => ({ ...before, ...change }))
  const wrong = wrongLimits(form.limits)
  const save = async () => {
    if (wrong.length > 0) return
    setBusy(true)
    setError(null)
    const { tenantId, name, description } = form
    try {
      if (tenant === null) {
        const limits = limitsOf(form.limits, {})
        await request<Tenant>('POST', '/v1/tenants', { body: { tenantId, name, description, limits } })
      } else {
        const limits = limitsOf(form.limits, tenant.limits)
        await request<Tenant>('PATCH', `/v1/tenants/${tenant.tenantId}`, { body: { name, description, limits } })
      }
      await client.invalidateQueries({ queryKey: keys.tenants })
      toast.done(tenant === null ? `Created ${tenantId}` : `Changed ${tenantId}`)
      onClose()
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  const at = (pointer: string) => (error instanceof ApiError ? error.at(pointer) : undefined)
  return (
    <Dialog
      open
      onClose={onClose}
      title={tenant === null ? 'New tenant' : `Change ${tenant.tenantId}`}
      footer={
        <>
          <CopyAs commands={() => (tenant === null ? createCommands(form) : changeCommands(tenant, form))} />
          <span className="flex-1" />
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" busy={busy} disabled={wrong.length > 0} onClick={() => void save()}>
            {tenant === null ? 'Create tenant' : 'Save'}
          </Button>
        </>
      }
    >
      <form
        className="grid gap-4"
        onSubmit={event => {
          event.preventDefault()
          void save()
        }}
      >
        {tenant === null && (
          <Field label="Id" hint="Lower-case letters, digits, - and _. It cannot be changed." error={at('/tenantId')}>
            {control => (
              <Input
                {...control}
                autoFocus
                maxLength={63}
                placeholder="acme"
                value={form.tenantId}
                onChange={event => set({ tenantId: event.target.value })}
              />
            )}
          </Field>
        )}
        <Field label="Name" error={at('/name')}>
          {control => (
            <Input
              {...control}
              maxLength={200}
              placeholder="ACME Ltd."
              value={form.name}
              onChange={event => set({ name: event.target.value })}
            />
          )}
        </Field>
        <Field label="Description" error={at('/description')}>
          {control => (
            <Input
              {...control}
              maxLength={1000}
              value={form.description}
              onChange={event => set({ description: event.target.value })}
            />
          )}
        </Field>
        <fieldset className="grid grid-cols-2 gap-3">
          <legend className="mb-1 font-medium text-ink-2 text-xs">Limits; an empty field is no limit</legend>
          {LIMITS.map(({ name, label, hint, whole }) => (
            <Field
              key={name}
              label={label}
              hint={hint}
              error={
                wrong.includes(name) ? (whole ? 'A whole number.' : 'A number, such as 0.5.') : at(`/limits/${name}`)
              }
            >
              {control => (
                <Input
                  {...control}
                  inputMode={whole ? 'numeric' : 'decimal'}
                  value={form.limits[name]}
                  onChange={event => set({ limits: { ...form.limits, [name]: event.target.value } })}
                />
              )}
            </Field>
          ))}
        </fieldset>
        {error !== null && <ErrorNotice error={error} />}
      </form>
    </Dialog>
  )
}
