// An OpenID Connect provider with new keys. Arguments: the module oidc-provider, the port, the redirect URI, and
// the secret of the clients.
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { pathToFileURL } from 'node:url'

const [module, port, redirectUri, clientSecret] = process.argv.slice(2)
const { Provider } = await import(pathToFileURL(module))

const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })
const roles = { ada: 'admin', vera: 'viewer' }
const audience = 'timeball'

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: 'timeball-ui',
      client_secret: clientSecret,
      redirect_uris: [redirectUri],
      post_logout_redirect_uris: [redirectUri],
    },
    {
      client_id: 'deploy-bot',
      client_secret: clientSecret,
      redirect_uris: [],
      response_types: [],
      grant_types: ['client_credentials'],
    },
  ],
  jwks: { keys: [{ ...key, kid: randomUUID(), use: 'sig', alg: 'RS256' }] },
  cookies: { keys: [randomUUID()] },
  conformIdTokenClaims: false, // the claims are in the ID token
  claims: { openid: ['sub', 'tenant', 'role'], profile: ['name'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: id.toUpperCase(), tenant: 'default', role: roles[id] }),
  }),
  extraTokenClaims: () => ({ tenant: 'default', role: 'operator' }),
  features: {
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_, client) => (client.clientId === 'deploy-bot' ? 'urn:timeball' : []),
      getResourceServerInfo: () => ({ scope: '', audience, accessTokenTTL: 600, accessTokenFormat: 'jwt' }),
    },
  },
})
provider.use(async (ctx, next) => {
  await next()
  if (typeof ctx.body === 'string') ctx.body = ctx.body.replace(/@import url\(http[^;]*;/, '') // fonts of another host
})
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'))
