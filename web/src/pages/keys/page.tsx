import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { enter } from '@/api/account'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import { useDenied, useMe } from '@/api/session'
import type { ApiKey, WebSession } from '@/api/types'
import { ConfirmDialog } from '@/components/confirm'
import { CopyAs, CopyId } from '@/components/copy'
import { EmptyState, Loaded, SkeletonRows } from '@/components/notices'
import { RoleBadge } from '@/components/role-badge'
import { RelativeTime } from '@/components/time'
import { PageHead, Section } from '@/layout/page'
import { allPages } from '@/lib/all-pages'
import { useShortcuts } from '@/lib/shortcuts'
import { plural } from '@/lib/time'
import { Button } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Icon } from '@/ui/icon'
import { toast } from '@/ui/toast'
import { endSessionCommands, revokeCommands } from './commands'
import { CreateDialog } from './create-dialog'
import { keyRules, sortedKeys } from './keys'
import { RotateDialog } from './rotate-dialog'

/** The list of API keys, and of the browsers that are signed in with them. */
export function Page() {
  const denied = useDenied('admin')
  const [creating, setCreating] = useState(false)
  useShortcuts('Keys', [{ keys: 'n', label: 'New key', run: () => denied === undefined && setCreating(true) }])
  return (
    <>
      <PageHead
        title="Keys"
        name="Keys"
        detail="API keys of this tenant, and the browsers that are signed in with them."
        actions={
          <Button look="primary" icon="plus" why={denied} onClick={() => setCreating(true)}>
            New key
          </Button>
        }
      />
      <div className="grid min-w-0 items-start gap-4 px-4 pb-8 lg:px-6 xl:grid-cols-2">
        {denied === undefined ? (
          <KeyList />
        ) : (
          <Section title="API keys">
            <EmptyState icon="keys" title="Keys are for admins">
              {denied} The browsers that are signed in with your key are listed beside.
            </EmptyState>
          </Section>
        )}
        <SessionList />
      </div>
      <CreateDialog open={creating} onClose={() => setCreating(false)} />
    </>
  )
}

function KeyList() {
  const query = useQuery({
    queryKey: keys.apiKeys,
    queryFn: ({ signal }) =>
      allPages<ApiKey>(cursor =>
        api.get('/v1/api-keys', { query: { limit: 200, ...(cursor === undefined ? {} : { cursor }) }, signal }),
      ),
  })
  const me = useMe().data
  const [revoking, setRevoking] = useState<ApiKey | null>(null)
  const [rotating, setRotating] = useState<ApiKey | null>(null)
  const [showRevoked, setShowRevoked] = useState(false)
  const found = sortedKeys(query.data?.items ?? [])
  return (
    <Section
      title={
        <>API keys {query.data !== undefined && <span className="font-normal text-ink-3">{found.live.length}</span>}</>
      }
      aside={
        found.revoked.length > 0 && (
          <Button small look="quiet" aria-expanded={showRevoked} onClick={() => setShowRevoked(!showRevoked)}>
            {showRevoked ? 'Hide' : 'Show'} {found.revoked.length} revoked
          </Button>
        )
      }
    >
      <Loaded query={query} skeleton={<SkeletonRows rows={4} height={57} />}>
        {() => (
          <ul className="divide-y">
            {[...found.live, ...(showRevoked ? found.revoked : [])].map(key => (
              <KeyRow
                key={key.keyId}
                item={key}
                isOwn={key.keyId === me?.keyId}
                onRevoke={() => setRevoking(key)}
                onRotate={() => setRotating(key)}
              />
            ))}
          </ul>
        )}
      </Loaded>
      <RevokeKey item={revoking} onClose={() => setRevoking(null)} />
      <RotateDialog item={rotating} onClose={() => setRotating(null)} />
    </Section>
  )
}

function KeyRow({
  item,
  isOwn,
  onRevoke,
  onRotate,
}: {
  item: ApiKey
  isOwn: boolean
  onRevoke: () => void
  onRotate: () => void
}) {
  const isRevoked = item.revokedAt !== null
  return (
    <li className={cx('flex min-h-14 items-center gap-3 px-4 py-2 text-sm', isRevoked && 'bg-sunken')}>
      <div className="min-w-0 flex-1">
        <p className="flex min-w-0 flex-wrap items-center gap-x-2">
          <span className={cx('bidi-plain min-w-0 truncate font-medium', isRevoked && 'text-ink-2 line-through')}>
            {item.name || 'without a name'}
          </span>
          <RoleBadge role={item.role} />
          {isOwn && <span className="text-2xs text-ink-3">you are signed in with it</span>}
        </p>
        <p className="flex min-w-0 flex-wrap items-center gap-x-3 text-ink-2 text-xs">
          <CopyId id={item.keyId} />
          <span>
            created <RelativeTime at={item.createdAt} />
          </span>
          {item.lastUsedAt !== null && (
            <span title="Exact to a minute">
              used <RelativeTime at={item.lastUsedAt} />
            </span>
          )}
          {item.expiresAt !== null && !isRevoked && (
            <span>
              expires <RelativeTime at={item.expiresAt} />
            </span>
          )}
          {isRevoked && (
            <span>
              revoked <RelativeTime at={item.revokedAt} />
            </span>
          )}
          {keyRules(item).map(rule => (
            <span key={rule} className="bidi-plain min-w-0 truncate">
              {rule}
            </span>
          ))}
        </p>
      </div>
      {!isRevoked && (
        <>
          <CopyAs
            commands={() => revokeCommands(item.keyId)}
            label={`Copy the command that revokes ${item.name || item.keyId}`}
          />
          <Button small onClick={onRotate}>
            Rotate
          </Button>
          <Button
            small
            why={isOwn ? 'You are signed in with this key. Revoke it with another one.' : undefined}
            onClick={onRevoke}
          >
            Revoke
          </Button>
        </>
      )}
    </li>
  )
}

function RevokeKey({ item, onClose }: { item: ApiKey | null; onClose: () => void }) {
  const client = useQueryClient()
  const name = item === null ? '' : item.name || item.keyId
  const revoke = async () => {
    if (item === null) return
    await api.delete('/v1/api-keys/{keyId}', { path: { keyId: item.keyId } })
    await client.invalidateQueries({ queryKey: keys.apiKeys })
    await client.invalidateQueries({ queryKey: keys.sessions })
    toast.done(`Revoked ${name}`)
  }
  return (
    <ConfirmDialog
      open={item !== null}
      onClose={onClose}
      title={`Revoke ${name}?`}
      action="Revoke key"
      danger
      onConfirm={revoke}
      {...(item === null ? {} : { commands: () => revokeCommands(item.keyId) })}
    >
      <p>
        It cannot be taken back. Whatever uses the key is refused at once, and within 3 seconds by other servers
        {item?.role === 'worker'
          ? ': workers with it stop to take runs, and runs that they hold are given to other workers.'
          : '; browsers that are signed in with it are signed out.'}
      </p>
    </ConfirmDialog>
  )
}

function SessionList() {
  const query = useQuery({
    queryKey: keys.sessions,
    queryFn: ({ signal }) =>
      allPages<WebSession>(cursor =>
        api.get('/v1/sessions', { query: { limit: 200, ...(cursor === undefined ? {} : { cursor }) }, signal }),
      ),
  })
  const [ending, setEnding] = useState<WebSession | null>(null)
  const count = query.data?.items.length ?? 0
  return (
    <Section
      title={
        <>Browsers {query.data !== undefined && <span className="font-normal text-ink-3">{count} signed in</span>}</>
      }
    >
      <Loaded query={query} skeleton={<SkeletonRows rows={3} height={57} />}>
        {found =>
          found.items.length === 0 ? (
            <EmptyState icon="user" title="No browser is signed in" command="timeball open">
              This page uses a key directly. The command opens the web UI in a browser, signed in.
            </EmptyState>
          ) : (
            <ul className="divide-y">
              {found.items.map(session => (
                <SessionRow key={session.id} session={session} onEnd={() => setEnding(session)} />
              ))}
            </ul>
          )
        }
      </Loaded>
      {query.data?.more === true && (
        <p className="px-4 py-2 text-ink-3 text-xs">The first {plural(count, 'browser')}.</p>
      )}
      <EndSession session={ending} onClose={() => setEnding(null)} />
    </Section>
  )
}

function SessionRow({ session, onEnd }: { session: WebSession; onEnd: () => void }) {
  return (
    <li className="flex min-h-14 items-center gap-3 px-4 py-2 text-sm">
      <div className="min-w-0 flex-1">
        <p className="flex min-w-0 flex-wrap items-center gap-x-2">
          <span className="bidi-plain min-w-0 truncate font-medium">{session.name || session.keyId}</span>
          <RoleBadge role={session.role} />
          {session.current && (
            <span className="inline-flex items-center gap-1 text-2xs text-ok">
              <Icon name="check" size={12} />
              this browser
            </span>
          )}
        </p>
        <p className="flex min-w-0 flex-wrap items-center gap-x-3 text-ink-2 text-xs">
          <span>
            signed in <RelativeTime at={session.createdAt} />
          </span>
          <span title="Exact to 5 minutes">
            used <RelativeTime at={session.lastUsedAt} />
          </span>
          <span title="If it is not used again">
            ends <RelativeTime at={session.expiresAt} />
          </span>
        </p>
      </div>
      <CopyAs commands={() => endSessionCommands(session.id)} label="Copy the command that signs this browser out" />
      <Button small onClick={onEnd}>
        Sign out
      </Button>
    </li>
  )
}

function EndSession({ session, onClose }: { session: WebSession | null; onClose: () => void }) {
  const client = useQueryClient()
  const end = async () => {
    if (session === null) return
    await api.delete('/v1/sessions/{sessionId}', { path: { sessionId: session.id } })
    if (session.current) {
      enter('/sign-in')
      return
    }
    await client.invalidateQueries({ queryKey: keys.sessions })
    toast.done('Signed the browser out')
  }
  return (
    <ConfirmDialog
      open={session !== null}
      onClose={onClose}
      title={session?.current === true ? 'Sign out here?' : 'Sign that browser out?'}
      action="Sign out"
      danger
      onConfirm={end}
      {...(session === null ? {} : { commands: () => endSessionCommands(session.id) })}
    >
      <p>
        {session?.current === true
          ? 'It is the browser that you are using: the page for signing in opens next.'
          : 'Its next request is refused, and it has to sign in again.'}
      </p>
    </ConfirmDialog>
  )
}
