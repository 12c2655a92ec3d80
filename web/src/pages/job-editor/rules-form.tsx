import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api } from '@/api/client'
import { keys } from '@/api/keys'
import type { Editor } from './editor'
import { CheckValue, ChoiceValue, NumberValue, TextValue, WordsValue } from './fields'

const OVERLAPS = [
  { value: 'queue', label: 'Queue', hint: 'Every fire waits for its turn, and none is lost.' },
  { value: 'queue_one', label: 'Queue one', hint: 'At most one fire waits; further ones are skipped.' },
  { value: 'skip', label: 'Skip', hint: 'A fire is skipped while a run is alive.' },
  { value: 'allow', label: 'Allow', hint: 'Runs execute beside each other.' },
  {
    value: 'cancel_previous',
    label: 'Cancel the previous',
    hint: 'The earlier run is cancelled, then the new one starts.',
  },
  {
    value: 'terminate_previous',
    label: 'Terminate the previous',
    hint: 'The earlier run is stopped without its grace time.',
  },
] as const

const CATCH_UPS = [
  { value: 'all', label: 'All', hint: 'After an outage, every missed fire runs.' },
  { value: 'last', label: 'The last one', hint: 'After an outage, only the newest missed fire runs.' },
  { value: 'none', label: 'None', hint: 'Fires that were missed in an outage do not run.' },
] as const

function hintOf(options: readonly { value: string; hint: string }[], value: string, fallback: string): string {
  return options.find(option => option.value === (value || fallback))?.hint ?? ''
}

/** The form for the rules that most jobs leave at their defaults, with one sentence each. */
export function RulesForm({ editor }: { editor: Editor }) {
  const calendars = useQuery({
    queryKey: keys.calendars('names'),
    queryFn: ({ signal }) => api.get('/v1/calendars', { signal }),
    staleTime: 60_000,
  })
  const hasKey = editor.value('/orderingKey') !== undefined
  const hasCalendars = editor.value('/calendars') !== undefined
  return (
    <div className="grid grid-cols-1 gap-6">
      <Group title="Overlap and outages">
        <ChoiceValue
          editor={editor}
          at="/overlap"
          label="While an earlier run is alive"
          options={OVERLAPS}
          fallback="queue"
          hint={hintOf(OVERLAPS, editor.string('/overlap'), 'queue')}
        />
        <ChoiceValue
          editor={editor}
          at="/catchUp"
          label="Catch up"
          options={CATCH_UPS}
          fallback="all"
          hint={hintOf(CATCH_UPS, editor.string('/catchUp'), 'all')}
        />
        <TextValue
          editor={editor}
          at="/catchUpWindow"
          label="Catch-up window"
          placeholder="1h"
          hint="Fires that are older than this are counted as missed."
        />
        <TextValue
          editor={editor}
          at="/startDeadline"
          label="Start deadline"
          placeholder="none"
          hint="A run that has not started this long after its time is skipped."
        />
      </Group>
      <Group title="Time limits">
        <TextValue
          editor={editor}
          at="/timeout"
          label="Timeout"
          placeholder="none"
          hint="An attempt that takes longer is stopped, and counts as failed."
        />
        <TextValue
          editor={editor}
          at="/grace"
          label="Grace time"
          placeholder="5s"
          hint="How long a process has between SIGTERM and SIGKILL."
        />
        <TextValue
          editor={editor}
          at="/startAt"
          label="Not before"
          placeholder="2026-12-01T00:00:00Z"
          hint="No fire is earlier."
          mono
        />
        <TextValue
          editor={editor}
          at="/endAt"
          label="Not after"
          placeholder="2027-01-01T00:00:00Z"
          hint="No fire is later."
          mono
        />
        <NumberValue
          editor={editor}
          at="/maxRuns"
          label="Fires at most"
          placeholder="no limit"
          hint="The schedule ends after this many fires."
        />
        <TextValue
          editor={editor}
          at="/jitter"
          label="Jitter"
          placeholder="none"
          hint="Each fire is delayed by a random time up to this."
        />
      </Group>
      <Group title="Calendars">
        <WordsValue
          editor={editor}
          at="/calendars"
          label="Calendars"
          suggestions={calendars.data?.items.map(item => item.name) ?? []}
          hint="No fire while one of them is closed."
        />
        {hasCalendars && (
          <ChoiceValue
            editor={editor}
            at="/excluded"
            label="Fires in closed times"
            fallback="skip"
            options={[
              { value: 'skip', label: 'Skip' },
              { value: 'next_open', label: 'Run once when it opens' },
            ]}
            hint="What happens to a fire while a calendar is closed."
          />
        )}
      </Group>
      <Group title="Priority, order and limits">
        <ChoiceValue
          editor={editor}
          at="/priority"
          label="Priority"
          fallback="medium"
          options={[
            { value: 'high', label: 'High' },
            { value: 'medium', label: 'Medium' },
            { value: 'low', label: 'Low' },
          ]}
          hint="A higher priority starts first when slots are short; waiting raises the rank of the others."
        />
        <CheckValue
          editor={editor}
          at="/preemptible"
          label="Preemptible"
          hint="Its runs may be suspended when a run of a higher priority finds no slot."
        />
        <TextValue
          editor={editor}
          at="/orderingKey"
          label="Ordering key"
          placeholder="none"
          hint="Runs with the same key execute one after the other, by fire time."
        />
        {hasKey && (
          <ChoiceValue
            editor={editor}
            at="/onFailure"
            label="After a dead run with this key"
            fallback="block"
            options={[
              { value: 'block', label: 'Block' },
              { value: 'continue', label: 'Continue' },
            ]}
            hint="Block: later runs wait until the dead one is retried or discarded."
          />
        )}
        <Pair>
          <TextValue
            editor={editor}
            at="/concurrency/key"
            label="Concurrency key"
            placeholder="none"
            hint="Runs with this key share a limit."
          />
          <NumberValue editor={editor} at="/concurrency/limit" label="At once" hint="How many of them execute." />
        </Pair>
        <Pair>
          <TextValue
            editor={editor}
            at="/rateLimit/key"
            label="Rate limit key"
            placeholder="none"
            hint="Starts with this key are limited."
          />
          <NumberValue editor={editor} at="/rateLimit/limit" label="Starts" hint="How many." />
          <TextValue editor={editor} at="/rateLimit/per" label="Per" placeholder="1s" hint="In this time." />
        </Pair>
      </Group>
      <Group title="Where it runs">
        <WordsValue
          editor={editor}
          at="/runsOn"
          label="Labels of the worker"
          placeholder="any worker"
          hint="It runs on workers that have all of these labels."
        />
        <Pair>
          <NumberValue editor={editor} at="/resources/cpu" label="CPUs" placeholder="0" hint="It takes." />
          <NumberValue editor={editor} at="/resources/memoryMb" label="Memory (MiB)" placeholder="0" hint="It takes." />
          <NumberValue editor={editor} at="/resources/slots" label="Slots" placeholder="1" hint="It takes." />
        </Pair>
        <ChoiceValue
          editor={editor}
          at="/delivery"
          label="Delivery"
          fallback="at_least_once"
          options={[
            { value: 'at_least_once', label: 'At least once' },
            { value: 'at_most_once', label: 'At most once' },
          ]}
          hint="At most once: an attempt that may have had an effect is never repeated."
        />
        <TextValue
          editor={editor}
          at="/resultLocation"
          label="Folder of results"
          placeholder="none"
          hint="A folder of the object storage where all results are stored."
        />
        <TextValue
          editor={editor}
          at="/userId"
          label="Owner"
          placeholder="none"
          hint="The user that the job belongs to."
        />
      </Group>
    </div>
  )
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h3 className="label mb-2">{title}</h3>
      <div className="grid items-start gap-x-4 gap-y-3 sm:grid-cols-2">{children}</div>
    </section>
  )
}

function Pair({ children }: { children: ReactNode }) {
  return <div className="grid grid-flow-col items-start gap-2">{children}</div>
}
