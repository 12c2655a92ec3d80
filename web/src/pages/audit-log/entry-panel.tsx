import type { ReactNode } from 'react'
import type { AuditEntry } from '@/api/types'
import { CopyId } from '@/components/copy'
import { JsonView } from '@/components/json-view'
import { Time } from '@/components/time'
import { Drawer } from '@/ui/dialog'
import { Action, Resource } from './columns'
import { actorName, differences } from './model'

const KINDS: Record<string, string> = {
  key: 'API key',
  session: 'browser',
  jwt: 'token',
  system: 'Timeball itself',
}

/** One entry: the credential and the address of the request, and each field before and after it. */
export function EntryPanel({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  const { actor } = entry
  const fields = differences(entry)
  return (
    <Drawer open onClose={onClose} wide title={<Action entry={entry} />}>
      <div className="grid gap-5 text-sm">
        <dl className="grid grid-cols-[7rem_minmax(0,1fr)] gap-x-3 gap-y-1.5">
          <Fact name="Time">
            <Time at={entry.at} full />
          </Fact>
          <Fact name="Actor">
            <span className="flex min-w-0 flex-wrap items-center gap-x-2">
              <span className="bidi-plain font-medium">{actorName(entry)}</span>
              <span className="text-ink-2">{KINDS[actor.kind] ?? actor.kind}</span>
              {actor.userId !== null && <span className="bidi-plain text-ink-2">{actor.name}</span>}
              {actor.id !== '' && <CopyId id={actor.id} className="text-ink-3" />}
            </span>
          </Fact>
          <Fact name="From">
            <span className="font-mono text-xs">{entry.address || 'the server'}</span>
          </Fact>
          <Fact name="Resource">
            <span className="flex min-w-0 flex-wrap items-center gap-x-2">
              <span className="text-ink-2">{entry.resource}</span>
              <Resource entry={entry} />
            </span>
          </Fact>
          <Fact name="Entry">{entry.seq}</Fact>
          <Fact name="Hash">
            <CopyId id={entry.hash} className="text-ink-2" />
          </Fact>
        </dl>
        {fields.length === 0 ? (
          <p className="text-ink-2">The entry has no values.</p>
        ) : (
          fields.map(each => (
            <section key={each.name} className="grid gap-1.5">
              <h3 className="bidi-plain font-mono text-ink-2 text-xs">{each.name}</h3>
              <div className="grid gap-2 sm:grid-cols-2">
                <Value name="Before" value={each.before} />
                <Value name="After" value={each.after} />
              </div>
            </section>
          ))
        )}
      </div>
    </Drawer>
  )
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-2">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </>
  )
}

function Value({ name, value }: { name: string; value: unknown }) {
  return (
    <div className="min-w-0">
      <p className="label pb-1">{name}</p>
      {value === undefined ? <p className="text-ink-3">–</p> : <JsonView value={value} maxLines={40} />}
    </div>
  )
}
