import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied, useMe } from '@/api/session'
import type { Tenant } from '@/api/types'
import { CopyId } from '@/components/copy'
import { EmptyState, Loaded, SkeletonRows } from '@/components/notices'
import { RelativeTime } from '@/components/time'
import { PageHead, Section } from '@/layout/page'
import { allPages } from '@/lib/all-pages'
import { serverNow } from '@/lib/clock'
import { useShortcuts } from '@/lib/shortcuts'
import { plural } from '@/lib/time'
import { amount, firstDay } from '@/pages/usage/usage'
import { Button } from '@/ui/button'
import { DeleteDialog } from './delete-dialog'
import { deletionWords, limitWords } from './limits'
import { TenantDialog } from './tenant-dialog'

/** The list of tenants with their limits. A credential without the permission `system` sees its own tenant only. */
export function Page() {
  const denied = useDenied('system')
  const [edited, setEdited] = useState<Tenant | 'new' | null>(null)
  const [deleted, setDeleted] = useState<Tenant | null>(null)
  useShortcuts('Tenants', [{ keys: 'n', label: 'New tenant', run: () => denied === undefined && setEdited('new') }])
  return (
    <>
      <PageHead
        title="Tenants"
        name="Tenants"
        detail="The owners of jobs, keys and users, with what each of them may use."
        actions={
          <Button look="primary" icon="plus" why={denied} onClick={() => setEdited('new')}>
            New tenant
          </Button>
        }
      />
      <div className="min-w-0 px-4 pb-8 lg:px-6">
        {denied === undefined ? <TenantList onEdit={setEdited} onDelete={setDeleted} /> : <OwnTenant />}
      </div>
      <TenantDialog tenant={edited} onClose={() => setEdited(null)} />
      <DeleteDialog tenant={deleted} onClose={() => setDeleted(null)} />
    </>
  )
}

/** Milliseconds between two reads of the list while a tenant is being deleted. */
const PROGRESS_INTERVAL = 2_000

function TenantList(props: { onEdit: (tenant: Tenant) => void; onDelete: (tenant: Tenant) => void }) {
  const query = useQuery({
    queryKey: keys.tenants,
    queryFn: ({ signal }) =>
      allPages<Tenant>(cursor =>
        api.get('/v1/tenants', { query: { limit: 200, ...(cursor === undefined ? {} : { cursor }) }, signal }),
      ),
    refetchInterval: ({ state }) =>
      state.data?.items.some(tenant => tenant.state === 'deleting') === true ? PROGRESS_INTERVAL : false,
  })
  const from = firstDay(serverNow(), '30')
  const usage = useQuery({
    queryKey: keys.usage({ from, by: 'tenant' }),
    queryFn: ({ signal }) => api.get('/v1/usage', { query: { from, groupBy: 'tenant', limit: 1000 }, signal }),
    enabled: query.data !== undefined,
  })
  const costs = new Map(usage.data?.items.map(each => [each.tenantId, each.cost]))
  const count = query.data?.items.length ?? 0
  return (
    <Section title={<>Tenants {query.data !== undefined && <span className="font-normal text-ink-3">{count}</span>}</>}>
      <Loaded query={query} skeleton={<SkeletonRows rows={4} height={57} />}>
        {found => (
          <>
            <ul className="divide-y">
              {found.items.map(tenant => (
                <TenantRow
                  key={tenant.tenantId}
                  tenant={tenant}
                  cost={costs.get(tenant.tenantId)}
                  onEdit={() => props.onEdit(tenant)}
                  onDelete={() => props.onDelete(tenant)}
                />
              ))}
            </ul>
            {found.items.length === 1 && (
              <EmptyState
                icon="globe"
                title="One tenant so far"
                command="timeball tenants create acme --name 'ACME Ltd.'"
              >
                Another tenant has its own jobs, keys and users, and sees nothing of this one.
              </EmptyState>
            )}
          </>
        )}
      </Loaded>
      {query.data?.more === true && (
        <p className="px-4 py-2 text-ink-3 text-xs">The first {plural(count, 'tenant')}.</p>
      )}
    </Section>
  )
}

function OwnTenant() {
  const own = useMe().data?.tenant
  const query = useQuery({
    queryKey: [...keys.tenants, own],
    queryFn: ({ signal }) => api.get('/v1/tenants/{tenantId}', { path: { tenantId: own ?? '' }, signal }),
    enabled: own !== undefined,
  })
  return (
    <Section title="Your tenant">
      <Loaded query={query} skeleton={<SkeletonRows rows={1} height={57} />}>
        {tenant => (
          <ul>
            <TenantRow tenant={tenant} />
          </ul>
        )}
      </Loaded>
    </Section>
  )
}

function TenantRow({
  tenant,
  cost,
  onEdit,
  onDelete,
}: {
  tenant: Tenant
  /** The cost of the last 30 days. */
  cost?: string | undefined
  onEdit?: () => void
  onDelete?: () => void
}) {
  const own = useMe().data?.tenant
  const limits = limitWords(tenant.limits)
  const leaving = tenant.state === 'deleting' ? 'The tenant is being deleted.' : undefined
  const kept =
    tenant.tenantId === 'default'
      ? 'The default tenant cannot be deleted.'
      : tenant.tenantId === own
        ? 'This is your tenant: delete it with a credential of another one.'
        : undefined
  return (
    <li className="flex min-h-14 items-center gap-3 px-4 py-2 text-sm">
      <div className="min-w-0 flex-1">
        <p className="flex min-w-0 flex-wrap items-center gap-x-2">
          <span className="bidi-plain min-w-0 truncate font-medium">{tenant.name || tenant.tenantId}</span>
          {leaving !== undefined && <span className="text-2xs text-bad">is being deleted</span>}
          {tenant.deletion && <span className="text-2xs text-ink-2">{deletionWords(tenant.deletion)}</span>}
        </p>
        <p className="flex min-w-0 flex-wrap items-center gap-x-3 text-ink-2 text-xs">
          <CopyId id={tenant.tenantId} />
          <span>
            created <RelativeTime at={tenant.createdAt} />
          </span>
          <span>{limits.length === 0 ? 'no limits' : limits.join(' · ')}</span>
          {tenant.description !== '' && <span className="bidi-plain min-w-0 truncate">{tenant.description}</span>}
        </p>
      </div>
      {cost !== undefined && cost !== '0' && (
        <Link
          to="/usage"
          search={{ by: 'tenant' }}
          title={`${cost} in the last 30 days`}
          className="whitespace-nowrap text-ink-2 text-xs hover:text-accent hover:underline"
        >
          cost {amount(cost)}
        </Link>
      )}
      {onEdit !== undefined && (
        <Button small onClick={onEdit} why={leaving}>
          Change
        </Button>
      )}
      {onDelete !== undefined && (
        <Button small onClick={onDelete} why={leaving ?? kept}>
          Delete
        </Button>
      )}
    </li>
  )
}
