import { getRouteApi, useRouter } from '@tanstack/react-router'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { enter } from '@/api/account'
import { request } from '@/api/client'
import { ApiError } from '@/api/problem'
import type { Me } from '@/api/types'
import { CopyText } from '@/components/copy'
import { ErrorNotice } from '@/components/notices'
import { Ball } from '@/layout/shell'
import { signInToken } from '@/sign-in-token'
import { Button } from '@/ui/button'
import { Field, Input } from '@/ui/field'
import { TooltipProvider } from '@/ui/tooltip'

const route = getRouteApi('/sign-in')

type Step = { name: 'key' } | { name: 'checking' } | { name: 'replace'; token: string; me: Me } | { name: 'busy' }

/** Signs in with the token of a one-time link, or with an API key. */
export function Page() {
  const { next } = route.useSearch()
  const router = useRouter()
  const [step, setStep] = useState<Step>({ name: 'checking' })
  const [error, setError] = useState<unknown>(null)
  const began = useRef(false)

  const signIn = async (credential: { token: string } | { apiKey: string }) => {
    setStep({ name: 'busy' })
    setError(null)
    try {
      await request<Me>('POST', '/v1/sign-in', { body: credential })
      enter(next ?? '/')
    } catch (reason) {
      setError(reason)
      setStep({ name: 'key' })
    }
  }

  // With a link in a browser that is signed in already, the user decides: a link may come from elsewhere.
  const begin = async () => {
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
              <KeyForm busy={step.name !== 'key'} error={error} onSubmit={apiKey => void signIn({ apiKey })} />
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

function KeyForm({ busy, error, onSubmit }: { busy: boolean; error: unknown; onSubmit: (apiKey: string) => void }) {
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
      {error !== null && <ErrorNotice error={error} title={titleOf(error)} hint={hintOf(error)} />}
      <Button type="submit" look="primary" busy={busy} className="h-9">
        Sign in
      </Button>
    </form>
  )
}

function titleOf(error: unknown): string {
  return error instanceof ApiError && error.status === 401 ? 'This key or link is not valid' : 'Could not sign in'
}

function hintOf(error: unknown): string | undefined {
  if (!(error instanceof ApiError)) return undefined
  return error.status === 401 ? 'Use another key, or open a new link.' : error.status === 403 ? '' : undefined
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
