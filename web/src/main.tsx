import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { followAccount } from './api/account'
import { whenUnauthorized } from './api/client'
import { ApiError } from './api/problem'
import { startEvents } from './events/hub'
import { followTheme } from './lib/settings'
import { startShortcuts } from './lib/shortcuts'
import { keptNext, takeProviderAnswer } from './provider-answer'
import { router } from './router'
import { takeSignInToken } from './sign-in-token'
import styleSheet from './styles.css?inline'
import { followFocus } from './ui/focus'

// The policy of the page accepts style elements with this nonce. The style sheet is one of them, so it needs no request
// of its own: the document, this script, the script of a page and one answer of the API are four. Dialogs lock the page
// behind them with another one.
const nonce = document.querySelector<HTMLMetaElement>('meta[name="timeball-nonce"]')?.content
if (nonce) setNonce(nonce)
const style = document.createElement('style')
if (nonce) style.nonce = nonce
style.textContent = styleSheet
document.head.append(style)

followTheme()
followAccount()
startShortcuts()
followFocus()

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      gcTime: 5 * 60_000,
      refetchOnWindowFocus: true,
      networkMode: 'always',
      // A request that the server rejects with a status below 500 is not repeated. After any other error it is repeated
      // up to 100 times.
      retry: (failures, error) => !(error instanceof ApiError && error.status < 500) && failures < 100,
      retryDelay: failures => Math.min(10_000, 500 * 2 ** failures),
    },
    mutations: { networkMode: 'always' },
  },
})

whenUnauthorized(() => {
  const { pathname, searchStr } = router.state.location
  if (pathname.endsWith('/sign-in')) return
  const base = router.basepath.replace(/\/$/, '')
  const here = (pathname.startsWith(base) ? pathname.slice(base.length) : pathname) + searchStr
  void router.navigate({ to: '/sign-in', search: here === '/' || here === '' ? {} : { next: here } })
})

if (takeSignInToken()) void router.navigate({ to: '/sign-in', search: {}, replace: true })
else if (takeProviderAnswer()) void router.navigate({ to: '/sign-in', search: { next: keptNext() }, replace: true })
startEvents(client)

const host = document.getElementById('root')
if (host !== null)
  createRoot(host).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  )
