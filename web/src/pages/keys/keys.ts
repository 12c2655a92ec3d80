import type { ApiKey } from '@/api/types'
import type { Role } from '@/components/role-badge'

/** Returns the valid keys, newest first, and the revoked ones, the last revoked first. */
export function sortedKeys(keys: readonly ApiKey[]): { live: ApiKey[]; revoked: ApiKey[] } {
  const live = keys.filter(key => key.revokedAt === null)
  const revoked = keys.filter(key => key.revokedAt !== null)
  return {
    live: live.toSorted((a, b) => b.createdAt.localeCompare(a.createdAt)),
    revoked: revoked.toSorted((a, b) => (b.revokedAt ?? '').localeCompare(a.revokedAt ?? '')),
  }
}

/** Returns a command that uses a new key. */
export function commandWith(role: Role, server: string): string {
  return role === 'worker'
    ? `timeball worker --server ${server} --token-file worker.key`
    : `TIMEBALL_URL=${server} TIMEBALL_TOKEN=$(cat ${role}.key) timeball jobs list`
}

/** Returns what the key may do beyond its role, and until when, in words. */
export function keyRules(key: ApiKey): string[] {
  const rules: string[] = []
  if (key.scopes !== null) rules.push(`only ${key.scopes.join(', ')}`)
  if (key.labels !== null) rules.push(`labels ${key.labels.join(', ') || 'none'}`)
  if (key.tenants !== null) rules.push(`serves ${key.tenants.join(', ')}`)
  if (key.userId !== null) rules.push(`of ${key.userId}`)
  return rules
}
