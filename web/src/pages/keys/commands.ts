import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

export type NewKeyBody = { role: string; name: string; expiresAt?: string }

/** Returns the request for a new key. A key with a date expires when that day begins in UTC. */
export function keyBody(role: string, name: string, expires: string): NewKeyBody {
  return { role, name, ...(expires === '' ? {} : { expiresAt: `${expires}T00:00:00Z` }) }
}

export function createCommands({ role, name, expiresAt }: NewKeyBody): Commands {
  return {
    curl: curl('POST', apiUrl('/v1/api-keys'), { role, name, ...(expiresAt === undefined ? {} : { expiresAt }) }),
    cli: cli(['keys', 'create'], { role, name, expires: expiresAt }),
    python: python('create_key', [role], { name: name === '' ? undefined : name, expires_at: expiresAt }),
  }
}

export function rotateCommands(keyId: string, overlap: string): Commands {
  return {
    curl: curl('POST', apiUrl(`/v1/api-keys/${keyId}/rotate`), { overlap }),
    cli: cli(['keys', 'rotate', keyId], { overlap }),
    python: python('rotate_key', [keyId], { overlap }),
  }
}

export function revokeCommands(keyId: string): Commands {
  return {
    curl: curl('DELETE', apiUrl(`/v1/api-keys/${keyId}`)),
    cli: cli(['keys', 'revoke', keyId]),
    python: python('revoke_key', [keyId]),
  }
}

export function endSessionCommands(sessionId: string): Commands {
  return {
    curl: curl('DELETE', apiUrl(`/v1/sessions/${sessionId}`)),
    cli: cli(['sessions', 'revoke', sessionId]),
    python: python('revoke_session', [sessionId]),
  }
}
