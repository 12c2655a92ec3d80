import './styles.css'
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
import { router } from './router'
import { takeSignInToken } from './sign-in-token'
import { followFocus } from './ui/focus'

// Dialogs lock the page behind them with a style element: the policy of the page accepts it with this nonce.
const nonce = document.querySelector<HTMLMetaElement>('meta[name="timeball-nonce"]')?.content
if (nonce) setNonce(nonce)

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
      // A refusal stays one. When the server does not answer, ask again for as long as the page is open.
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
