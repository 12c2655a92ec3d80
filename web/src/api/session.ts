import { useQuery } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { request } from './client'
import { keys } from './keys'
import type { Me, Permission } from './types'

/**
 * Fetches the credential of this browser. The request is sent after the first data of the page, so pages do not wait
 * for it.
 */
export function useMe() {
  return useQuery({
    queryKey: keys.me,
    queryFn: ({ signal }) => request<Me>('GET', '/v1/me', { signal, later: true }),
    staleTime: 60_000,
    retry: false,
  })
}

/**
 * The permissions of the credential; null until they are known. They are kept outside the query cache, because each row
 * of a long list reads them.
 */
let permissions: readonly string[] | null = null
const listeners = new Set<() => void>()

/** Keeps `permissions` current. The frame of the page calls this hook once. */
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
  run: 'Your key may read, but not run, cancel or pause anything.',
  edit: 'This needs a key with the role editor or admin.',
  admin: 'This needs a key with the role admin.',
  system: 'This needs a key with the role system.',
}

/** Returns why the credential does not permit an action, or undefined if it does: `<Button why={useDenied('run')}>`. */
export function useDenied(permission: Permission): string | undefined {
  const known = useSyncExternalStore(subscribe, () => permissions)
  return known === null || known.includes(permission) ? undefined : NEEDS[permission]
}
