import type { Tenant, TenantLimits } from '@/api/types'
import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl } from '@/lib/url'

/** The limits that the form has, with their units. `least` is the smallest value. */
export const LIMITS = [
  { name: 'weight', label: 'Weight', hint: 'Share of the workers, compared to other tenants.', whole: false },
  { name: 'maxPriority', label: 'Highest priority', hint: '0 to 9.', whole: true },
  { name: 'concurrentRuns', label: 'Running runs', hint: 'At the same time.', whole: true },
  { name: 'runsPerDay', label: 'Runs per day', hint: 'A day in UTC.', whole: true },
  { name: 'jobs', label: 'Jobs', hint: 'That may still fire.', whole: true },
  { name: 'storedBytes', label: 'Stored bytes', hint: 'Of specs, output and results.', whole: true },
  { name: 'requestsPerSecond', label: 'Requests per second', hint: 'On each server.', whole: false },
  { name: 'requestBurst', label: 'Burst of requests', hint: 'At once, before the rate counts.', whole: true },
  { name: 'requestsPerSecondPerKey', label: 'Requests per second and key', hint: 'On each server.', whole: false },
  { name: 'requestBurstPerKey', label: 'Burst of requests per key', hint: 'At once, with one key.', whole: true },
] as const
export type LimitName = (typeof LIMITS)[number]['name']
export type LimitForm = Record<LimitName, string>

export function formOf(limits: TenantLimits): LimitForm {
  return Object.fromEntries(LIMITS.map(({ name }) => [name, String(limits[name] ?? '')])) as LimitForm
}

/** Returns the limits of a form. An empty field is no limit. What the form does not have is kept: prices and lists. */
export function limitsOf(form: LimitForm, before: TenantLimits): TenantLimits {
  const given = LIMITS.filter(({ name }) => form[name].trim() !== '').map(({ name }) => [name, Number(form[name])])
  const kept = Object.entries(before).filter(([name]) => !LIMITS.some(limit => limit.name === name))
  return { ...Object.fromEntries(kept), ...Object.fromEntries(given) }
}

/** Returns the names of the fields that are not numbers. */
export function wrongLimits(form: LimitForm): LimitName[] {
  return LIMITS.filter(({ name, whole }) => {
    const text = form[name].trim()
    return text !== '' && (whole ? !/^\d+$/.test(text) : !/^\d+(\.\d+)?$/.test(text))
  }).map(({ name }) => name)
}

/** Returns the limits of a tenant in words; empty if it has none. */
export function limitWords(limits: TenantLimits): string[] {
  const number = (value: number) => value.toLocaleString('en')
  const words: string[] = []
  if (limits.weight !== undefined && limits.weight !== 1) words.push(`weight ${limits.weight}`)
  if (limits.concurrentRuns != null) words.push(`${number(limits.concurrentRuns)} running`)
  if (limits.runsPerDay != null) words.push(`${number(limits.runsPerDay)} runs per day`)
  if (limits.jobs != null) words.push(`${number(limits.jobs)} jobs`)
  if (limits.storedBytes != null) words.push(`${number(limits.storedBytes)} bytes`)
  if (limits.requestsPerSecond != null) words.push(`${number(limits.requestsPerSecond)} requests/s`)
  if (limits.requestsPerSecondPerKey != null) words.push(`${number(limits.requestsPerSecondPerKey)} requests/s per key`)
  if (limits.maxPriority != null) words.push(`priority up to ${limits.maxPriority}`)
  if (limits.allowAddresses?.length) words.push(`${limits.allowAddresses.length} allowed address ranges`)
  if (limits.denyAddresses?.length) words.push(`${limits.denyAddresses.length} denied address ranges`)
  return words
}

export type TenantForm = { tenantId: string; name: string; description: string; limits: LimitForm }

const OPTIONS: Record<LimitName, string> = {
  weight: 'weight',
  maxPriority: 'max-priority',
  concurrentRuns: 'concurrent-runs',
  runsPerDay: 'runs-per-day',
  jobs: 'jobs',
  storedBytes: 'stored-bytes',
  requestsPerSecond: 'requests-per-second',
  requestBurst: 'request-burst',
  requestsPerSecondPerKey: 'requests-per-second-per-key',
  requestBurstPerKey: 'request-burst-per-key',
}

function optionsOf(form: TenantForm): Record<string, string> {
  const limits = LIMITS.map(({ name }) => [OPTIONS[name], form.limits[name].trim()])
  return { name: form.name, description: form.description, ...Object.fromEntries(limits) }
}

export function createCommands(form: TenantForm): Commands {
  const body = {
    tenantId: form.tenantId,
    name: form.name,
    description: form.description,
    limits: limitsOf(form.limits, {}),
  }
  return {
    curl: curl('POST', apiUrl('/v1/tenants'), body),
    cli: cli(['tenants', 'create', form.tenantId], optionsOf(form)),
    python: python('create_tenant', [form.tenantId], {
      name: form.name,
      description: form.description,
      limits: body.limits,
    }),
  }
}

export function deleteCommands(tenantId: string): Commands {
  return {
    curl: curl('DELETE', apiUrl(`/v1/tenants/${tenantId}`)),
    cli: cli(['tenants', 'delete', tenantId], { yes: true }),
    python: python('delete_tenant', [tenantId]),
  }
}

/** How far the deletion of a tenant is, in a few words. */
export function deletionWords(deletion: NonNullable<Tenant['deletion']>): string {
  const step = { runs: 'its runs end', objects: 'its objects are deleted', rows: 'its rows are deleted' }[
    deletion.phase
  ]
  const deleted = Object.values(deletion.deleted).reduce((sum, count) => sum + count, 0)
  return deleted === 0 ? step : `${step} · ${deleted.toLocaleString('en')} deleted so far`
}

export function changeCommands(tenant: Tenant, form: TenantForm): Commands {
  const body = { name: form.name, description: form.description, limits: limitsOf(form.limits, tenant.limits) }
  return {
    curl: curl('PATCH', apiUrl(`/v1/tenants/${tenant.tenantId}`), body),
    cli: cli(['tenants', 'update', tenant.tenantId], optionsOf(form)),
    python: python('update_tenant', [tenant.tenantId, body]),
  }
}
