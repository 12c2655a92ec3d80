import { useQuery } from '@tanstack/react-query'
import { request } from './client'
import { keys } from './keys'
import type { Me, Permission } from './types'

/** The credential of this browser. It is read after the first data: pages do not wait for it. */
export function useMe() {
  return useQuery({
    queryKey: keys.me,
    queryFn: ({ signal }) => request<Me>('GET', '/v1/me', { signal }),
    staleTime: 60_000,
    retry: false,
  })
}

const NEEDS: Record<Permission, string> = {
  read: 'Your key may not read.',
  write: 'Your key may read, but not change anything.',
  admin: 'This needs a key with the role admin.',
}

/** Why an action is not allowed, or undefined if it is: `<Button why={useDenied('write')}>`. */
export function useDenied(permission: Permission): string | undefined {
  const me = useMe()
  if (me.data === undefined) return undefined
  return me.data.permissions.includes(permission) ? undefined : NEEDS[permission]
}
