import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

export function createCommands(role: string, name: string): Commands {
  return {
    curl: curl('POST', apiUrl('/v1/api-keys'), { role, name }),
    cli: cli(['keys', 'create'], { role, name }),
    python: python('create_key', [role], { name: name === '' ? undefined : name }),
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
