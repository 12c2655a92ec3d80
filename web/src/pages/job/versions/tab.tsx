import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { request } from '@/api/client'
import { keys } from '@/api/keys'
import { ApiError } from '@/api/problem'
import type { Job, Page } from '@/api/types'
import { JsonView } from '@/components/json-view'
import { EmptyState, Loaded } from '@/components/notices'
import { RelativeTime, Time } from '@/components/time'
import { Section } from '@/layout/page'
import { plural } from '@/lib/time'
import { cx } from '@/ui/cx'
import { Segments } from '@/ui/field'
import { changesBetween } from './diff'

type Version = { version: number; at: string; by: string | null; job: Job }

/** The versions of the definition of a job, each with its changes. */
export function VersionsTab({
  jobId,
  chosen,
  onChoose,
}: {
  jobId: string
  chosen: number | null
  onChoose: (version: number) => void
}) {
  const versions = useQuery({
    queryKey: keys.job(jobId, 'versions'),
    queryFn: ({ signal }) =>
      request<Page<Version>>('GET', '/v1/jobs/{jobId}/versions', { path: { jobId }, query: { limit: 100 }, signal }),
    retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
  })
  if (versions.error instanceof ApiError && [404, 405].includes(versions.error.status) && versions.data === undefined)
    return (
      <EmptyState icon="info" title="This server keeps no versions">
        A newer server keeps the definitions that a job had, and shows what each changed.
      </EmptyState>
    )
  return (
    <Loaded query={versions}>{page => <Versions versions={page.items} chosen={chosen} onChoose={onChoose} />}</Loaded>
  )
}

function Versions({
  versions,
  chosen,
  onChoose,
}: {
  versions: readonly Version[]
  chosen: number | null
  onChoose: (version: number) => void
}) {
  const [look, setLook] = useState<'changes' | 'json'>('changes')
  const index = Math.max(
    0,
    versions.findIndex(item => item.version === chosen),
  )
  const shown = versions[index]
  const before = versions[index + 1]
  if (shown === undefined) return <EmptyState icon="info" title="No versions yet" />
  return (
    <div className="grid gap-4 lg:grid-cols-[16rem_minmax(0,1fr)]">
      <ol className="panel max-h-[70vh] content-start overflow-auto">
        {versions.map(item => (
          <li key={item.version} className="border-b last:border-b-0">
            <button
              type="button"
              aria-current={item === shown}
              onClick={() => onChoose(item.version)}
              className={cx(
                'block w-full px-4 py-2 text-left text-sm hover:bg-hover',
                item === shown && 'bg-accent-soft shadow-[inset_2px_0_0_var(--accent)]',
              )}
            >
              <span className="flex justify-between gap-2">
                <span className="font-medium">Version {item.version}</span>
                <RelativeTime at={item.at} className="text-ink-3 text-xs" />
              </span>
              <span className="bidi-plain block truncate text-ink-2 text-xs">{item.by ?? ''}</span>
            </button>
          </li>
        ))}
      </ol>
      <Section
        title={before === undefined ? `Version ${shown.version}` : `Version ${before.version} → ${shown.version}`}
        aside={
          <Segments
            label="Show"
            value={look}
            onChange={setLook}
            options={[
              { value: 'changes', label: 'Changes' },
              { value: 'json', label: 'JSON' },
            ]}
          />
        }
      >
        <p className="border-b px-4 py-2 text-ink-2 text-xs">
          <Time at={shown.at} full />
          {shown.by != null && (
            <>
              {' '}
              by <span className="bidi-plain">{shown.by}</span>
            </>
          )}
        </p>
        {look === 'json' || before === undefined ? (
          <JsonView value={shown.job} className="border-0" />
        ) : (
          <Changes before={before.job} after={shown.job} />
        )}
      </Section>
    </div>
  )
}

function Changes({ before, after }: { before: Job; after: Job }) {
  const changes = changesBetween(before, after)
  if (changes.length === 0) return <p className="p-4 text-ink-3 text-sm">The definition is the same.</p>
  return (
    <div className="p-4">
      <p className="mb-2 text-ink-3 text-xs">{plural(changes.length, 'change')}</p>
      <dl className="grid gap-3 font-mono text-xs">
        {changes.map(change => (
          <div key={change.path}>
            <dt className="text-ink-2">{change.path}</dt>
            {change.before !== null && <Line sign="−" text={change.before} className="bg-bad-soft" />}
            {change.after !== null && <Line sign="+" text={change.after} className="bg-accent-soft" />}
          </div>
        ))}
      </dl>
    </div>
  )
}

function Line({ sign, text, className }: { sign: string; text: string; className: string }) {
  return (
    <dd className={cx('flex gap-2 rounded-sm px-2 py-0.5', className)}>
      <span aria-label={sign === '+' ? 'after' : 'before'} role="img" className="select-none text-ink-3">
        {sign}
      </span>
      <span className="bidi-plain min-w-0 whitespace-pre-wrap [overflow-wrap:anywhere]">
        {text.length > 4000 ? `${text.slice(0, 4000)} …` : text}
      </span>
    </dd>
  )
}
