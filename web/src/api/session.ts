import { useQuery } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { request } from './client'
import { keys } from './keys'
import type { Me, Permission } from './types'

/** The credential of this browser. It is read after the first data: pages do not wait for it. */
export function useMe() {
  return useQuery({
    queryKey: keys.me,
    queryFn: ({ signal }) => request<Me>('GET', '/v1/me', { signal, later: true }),
    staleTime: 60_000,
    retry: false,
  })
}

/** What the credential allows. Rows of long lists ask for it, so it is kept beside the cache of queries. */
let permissions: readonly string[] | null = null
const listeners = new Set<() => void>()

/** Keeps the permissions current. The frame of the page calls it once. */
export function useFollowPermissions(): void {
  const { data } = useMe()
  useEffect(() => {
    permissions = data?.permissions ?? null
    for (const listener of listeners) listener()
  }, [data])
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}

const NEEDS: Record<Permission, string> = {
  read: 'Your key may not read.',
  write: 'Your key may read, but not change anything.',
  admin: 'This needs a key with the role admin.',
}

/** Why an action is not allowed, or undefined if it is: `<Button why={useDenied('write')}>`. */
export function useDenied(permission: Permission): string | undefined {
  const known = useSyncExternalStore(subscribe, () => permissions)
  return known === null || known.includes(permission) ? undefined : NEEDS[permission]
}
