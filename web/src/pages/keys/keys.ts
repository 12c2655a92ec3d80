import type { ApiKey } from '@/api/types'

/** Keys that work, newest first; then those that were revoked, the last one first. */
export function sortedKeys(keys: readonly ApiKey[]): { live: ApiKey[]; revoked: ApiKey[] } {
  const live = keys.filter(key => key.revokedAt === null)
  const revoked = keys.filter(key => key.revokedAt !== null)
  return {
    live: live.toSorted((a, b) => b.createdAt.localeCompare(a.createdAt)),
    revoked: revoked.toSorted((a, b) => (b.revokedAt ?? '').localeCompare(a.revokedAt ?? '')),
  }
}

export const ROLES = {
  worker: { label: 'Worker', text: 'Takes runs and reports on them. It cannot read or change jobs.' },
  admin: { label: 'Admin', text: 'May do everything: jobs, runs, calendars, workers and keys.' },
} as const
export type Role = keyof typeof ROLES

/** How a new key is used at once. */
export function commandWith(role: Role, server: string): string {
  return role === 'worker'
    ? `timeball worker --server ${server} --token-file worker.key`
    : `TIMEBALL_URL=${server} TIMEBALL_TOKEN=$(cat admin.key) timeball jobs list`
}
