import { getRouteApi, useRouter } from '@tanstack/react-router'
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react'
import { enter } from '@/api/account'
import { request } from '@/api/client'
import { ApiError } from '@/api/problem'
import type { Me } from '@/api/types'
import { CopyText } from '@/components/copy'
import { ErrorNotice } from '@/components/notices'
import { Ball } from '@/layout/shell'
import { keepNext, providerAnswer } from '@/provider-answer'
import { signInToken } from '@/sign-in-token'
import { Button } from '@/ui/button'
import { Field, Input } from '@/ui/field'
import { TooltipProvider } from '@/ui/tooltip'

const route = getRouteApi('/sign-in')

type Step = { name: 'key' } | { name: 'checking' } | { name: 'replace'; token: string; me: Me } | { name: 'busy' }

type Failure = { error: unknown; title?: string; hint?: string }

type Credential =
  | { token: string }
  | { apiKey: string }
  | { provider: { code: string; state: string; iss: string | null } }

/** Signs in with the token of a one-time link, with an API key, or at the identity provider. */
export function Page() {
  const { next } = route.useSearch()
  const router = useRouter()
  const [step, setStep] = useState<Step>({ name: 'checking' })
  const [failure, setFailure] = useState<Failure | null>(null)
  const [provider, setProvider] = useState<string | null>(null)
  const began = useRef(false)

  const signIn = async (credential: Credential) => {
    setStep({ name: 'busy' })
    setFailure(null)
    try {
      await request<Me>('POST', '/v1/sign-in', { body: credential })
      enter(next ?? '/')
    } catch (error) {
      setFailure('provider' in credential ? { error, hint: '' } : failureOf(error))
      setStep({ name: 'key' })
    }
  }

  const showProvider = async () => {
    try {
      setProvider((await request<{ name: string | null }>('GET', '/v1/sign-in/provider')).name)
    } catch {
      // The form for API keys works without it.
    }
  }

  const goToProvider = async () => {
    setStep({ name: 'busy' })
    setFailure(null)
    try {
      const { url } = await request<{ url: string }>('POST', '/v1/sign-in/provider')
      keepNext(next)
      window.location.assign(url)
    } catch (error) {
      setFailure({ error, hint: '' })
      setStep({ name: 'key' })
    }
  }

  // If the browser is signed in already, the page asks the user first, because the link may come from another person.
  const begin = async () => {
    void showProvider()
    const answer = providerAnswer()
    if (answer !== null && 'code' in answer) return signIn({ provider: answer })
    if (answer !== null) setFailure({ error: new RefusedByProvider(answer.error), hint: '' })
    const token = signInToken()
    if (token === null) {
      setStep({ name: 'key' })
      return
    }
    try {
      const me = await request<Me>('GET', '/v1/me')
      setStep({ name: 'replace', token, me })
    } catch {
      await signIn({ token })
    }
  }
  useEffect(() => {
    document.title = 'Sign in · Timeball'
    if (began.current) return
    began.current = true
    void begin()
  })

  return (
    <TooltipProvider>
      <main className="grid min-h-dvh place-items-center px-4 py-10">
        <div className="grid w-full max-w-sm gap-6">
          <div className="grid justify-items-center gap-3">
            <Ball size={40} />
            <h1 className="font-semibold text-2xl tracking-tight">Timeball</h1>
            <p className="text-center text-ink-2 text-sm">Every fire on time, and accounted for.</p>
          </div>
          <div className="panel grid gap-4 p-5">
            {step.name === 'replace' ? (
              <Replace
                step={step}
                onReplace={() => void signIn({ token: step.token })}
                onKeep={() => void router.navigate({ to: '/' })}
              />
            ) : (
              <>
                {provider !== null && (
                  <ProviderButton name={provider} busy={step.name !== 'key'} onClick={() => void goToProvider()} />
                )}
                <KeyForm
                  busy={step.name !== 'key'}
                  look={provider === null ? 'primary' : 'plain'}
                  onSubmit={apiKey => void signIn({ apiKey })}
                >
                  {failure !== null && <ErrorNotice title="Could not sign in" {...failure} />}
                </KeyForm>
              </>
            )}
          </div>
          <div className="grid justify-items-center gap-2 text-center text-ink-2 text-xs">
            <p>On the machine that runs Timeball, this command opens a page that is signed in:</p>
            <CopyText text="timeball open" />
          </div>
        </div>
      </main>
    </TooltipProvider>
  )
}

class RefusedByProvider extends Error {
  constructor(reason: string) {
    super(`The identity provider did not sign you in: ${reason}.`)
  }
}

function ProviderButton({ name, busy, onClick }: { name: string; busy: boolean; onClick: () => void }) {
  return (
    <>
      <Button look="primary" busy={busy} className="h-9" onClick={onClick}>
        <span className="bidi-plain min-w-0 truncate">Sign in with {name}</span>
      </Button>
      <p className="flex items-center gap-3 text-ink-3 text-xs before:h-px before:flex-1 before:bg-line after:h-px after:flex-1 after:bg-line">
        or
      </p>
    </>
  )
}

function KeyForm({
  busy,
  look,
  onSubmit,
  children,
}: {
  busy: boolean
  look: 'primary' | 'plain'
  onSubmit: (apiKey: string) => void
  children: ReactNode
}) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const value = new FormData(event.currentTarget).get('key')
    if (typeof value === 'string' && value.trim() !== '') onSubmit(value.trim())
  }
  return (
    <form className="grid gap-4" onSubmit={submit}>
      <Field label="API key" hint="It is exchanged for a session of this browser, and not stored here.">
        {control => (
          <Input
            {...control}
            name="key"
            type="password"
            autoComplete="current-password"
            required
            autoFocus
            className="h-9 font-mono"
          />
        )}
      </Field>
      {children}
      <Button type="submit" look={look} busy={busy} className="h-9">
        Sign in
      </Button>
    </form>
  )
}

function failureOf(error: unknown): Failure {
  if (!(error instanceof ApiError)) return { error }
  if (error.status !== 401) return { error, ...(error.status === 403 ? { hint: '' } : {}) }
  return { error, title: 'This key or link is not valid', hint: 'Use another key, or open a new link.' }
}

function Replace({
  step,
  onReplace,
  onKeep,
}: {
  step: Step & { name: 'replace' }
  onReplace: () => void
  onKeep: () => void
}) {
  return (
    <div className="grid gap-4 text-sm">
      <p>
        This browser is signed in as <strong>{step.me.name || step.me.keyId}</strong> ({step.me.role}). The link signs
        in anew. Use it only if you made it.
      </p>
      <div className="flex justify-end gap-2">
        <Button onClick={onReplace}>Use the link</Button>
        <Button look="primary" onClick={onKeep}>
          Stay signed in
        </Button>
      </div>
    </div>
  )
}
