import { useCallback, useEffect, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import type { Run } from '@/api/types'
import { ErrorNotice } from '@/components/notices'
import { useShortcuts } from '@/lib/shortcuts'
import { isTerminal } from '@/lib/states'
import { oneOf, stored } from '@/lib/storage'
import { count, plural } from '@/lib/time'
import { apiUrl } from '@/lib/url'
import { Button, IconButton } from '@/ui/button'
import { cx } from '@/ui/cx'
import { Input } from '@/ui/field'
import { Icon } from '@/ui/icon'
import { Menu, MenuCheck, MenuChoice, MenuItem, MenuLabel, MenuLine } from '@/ui/menu'
import { Tooltip } from '@/ui/tooltip'
import { afterReturn, stripAnsi, visible } from './ansi'
import type { ColorLevel } from './colors'
import { nextMatch } from './search'
import { type LogSource, type LogState, useLog } from './use-log'
import { useLogSearch } from './use-search'
import { type LogHandle, LogLines } from './view'

const isFlag = (value: unknown): value is boolean => typeof value === 'boolean'
const wrapLines = stored<boolean>('log.wrap', false, isFlag)
const showTimes = stored<boolean>('log.times', false, isFlag)
const colorLevel = stored<ColorLevel>('log.colors', 'all', oneOf('all', 'theme', 'none'))

/** Shows the output of a run while it is written. The user can follow, search, wrap and download it. */
export function LogPanel({ run }: { run: Run }) {
  const source = useLog(run.runId, !isTerminal(run.status))
  const { log, version } = source
  const [follow, setFollow] = useState(true)
  const [query, setQuery] = useState('')
  const [exact, setExact] = useState(false)
  const [large, setLarge] = useState(false)
  const [current, setCurrent] = useState<number | null>(null)
  const lines = useRef<LogHandle>(null)
  const field = useRef<HTMLInputElement>(null)
  const wrap = wrapLines.use()
  const times = showTimes.use()
  const colors = colorLevel.use()
  const found = useLogSearch(log, version, query, exact)

  const goTo = useCallback((line: number) => {
    setCurrent(line)
    lines.current?.showLine(line)
  }, [])
  const step = (direction: 1 | -1) => {
    const line = nextMatch(found.lines, current ?? (direction === 1 ? -1 : log.end), direction)
    if (line !== null) goTo(line)
  }
  // The view scrolls to the first match as soon as it is found.
  const firstMatch = found.lines[0]
  useEffect(() => {
    if (query !== '' && firstMatch !== undefined) goTo(firstMatch)
    else setCurrent(null)
  }, [query, firstMatch, goTo])

  useShortcuts('Output', [
    { keys: 'f', label: 'Follow the output', run: () => setFollow(true) },
    { keys: 'w', label: 'Wrap long lines', run: () => wrapLines.set(!wrapLines.get()) },
    { keys: 't', label: 'Show the time of each line', run: () => showTimes.set(!showTimes.get()) },
    { keys: 'n', label: 'Next match', run: () => step(1) },
    { keys: 'N', label: 'Previous match', run: () => step(-1) },
  ])

  const isEmpty = log.end === log.first
  return (
    <section
      aria-labelledby="log-title"
      className={cx('panel flex min-w-0 flex-col overflow-hidden', large && 'fixed inset-2 z-30 shadow-pop')}
    >
      <div className="flex min-h-10 flex-wrap items-center gap-x-2 gap-y-1 border-b px-3 py-1">
        <h2 id="log-title" className="pl-1 font-semibold text-sm">
          Output
        </h2>
        <LogStateMark source={source} isWaiting={run.startTime === null} />
        <span className="flex-1" />
        <search className="no-print flex min-w-0 items-center gap-0.5 max-sm:order-1 max-sm:w-full">
          <div className="relative min-w-0 flex-1 sm:w-40 3xl:w-72">
            <Icon name="search" size={14} className="absolute top-2 left-2 text-ink-3" />
            <Input
              ref={field}
              data-search
              type="search"
              aria-label="Search the output"
              placeholder="Search"
              value={query}
              maxLength={500}
              onChange={event => setQuery(event.target.value)}
              onKeyDown={event => {
                if (event.key === 'Enter') {
                  event.preventDefault()
                  step(event.shiftKey ? -1 : 1)
                } else if (event.key === 'Escape') {
                  setQuery('')
                  lines.current?.focus()
                }
              }}
              className="h-7 pr-16 pl-7"
            />
            <span aria-live="polite" className="pointer-events-none absolute top-1.5 right-2 text-2xs text-ink-3">
              {query !== '' && matchText(found.count, found.lines, current, found.busy)}
            </span>
          </div>
          <Tooltip text="Match case">
            <button
              type="button"
              aria-label="Match case"
              aria-pressed={exact}
              onClick={() => setExact(!exact)}
              className={cx(
                'size-7 shrink-0 rounded-md font-medium text-xs hover:bg-hover',
                exact ? 'bg-accent-soft text-accent' : 'text-ink-2',
              )}
            >
              Aa
            </button>
          </Tooltip>
          <IconButton
            label="Previous match"
            hint="N"
            icon="up"
            className="size-7"
            disabled={found.count === 0}
            onClick={() => step(-1)}
          />
          <IconButton
            label="Next match"
            hint="n"
            icon="down"
            className="size-7"
            disabled={found.count === 0}
            onClick={() => step(1)}
          />
        </search>
        <div className="no-print flex items-center gap-0.5">
          <Menu trigger={<IconButton label="How the output is shown" icon="dots" className="size-7" />}>
            <MenuCheck checked={wrap} onChange={wrapLines.set}>
              Wrap long lines
            </MenuCheck>
            <MenuCheck checked={times} onChange={showTimes.set}>
              Time of each line
            </MenuCheck>
            <MenuLine />
            <MenuLabel>Colours</MenuLabel>
            <MenuChoice
              value={colors}
              onChange={colorLevel.set}
              options={[
                { value: 'all', label: 'As written' },
                { value: 'theme', label: 'Of the theme only' },
                { value: 'none', label: 'None' },
              ]}
            />
            {log.attempts.length > 1 && (
              <>
                <MenuLine />
                <MenuLabel>Go to</MenuLabel>
                {log.attempts.slice(-20).map(item => (
                  <MenuItem key={item.attempt} icon="right" onSelect={() => goTo(item.line)}>
                    Attempt {item.attempt}
                  </MenuItem>
                ))}
              </>
            )}
          </Menu>
          <DownloadLink runId={run.runId} />
          <IconButton
            label={large ? 'Back to the page' : 'Fill the window'}
            icon={large ? 'minus' : 'external'}
            className="size-7"
            onClick={() => setLarge(!large)}
          />
        </div>
      </div>
      {source.error !== null && <ErrorNotice error={source.error} className="m-3" title="The output cannot be read" />}
      {log.first > 0 && (
        <p className="border-b bg-late-soft px-4 py-1.5 text-xs">
          The first {plural(log.first, 'line')} are not shown, so that the page stays small. The download has them all.
        </p>
      )}
      <div className={cx('relative flex min-h-0 flex-col', large && 'flex-1')}>
        {isEmpty ? (
          <p aria-busy={source.state === 'reading'} className="bg-sunken px-4 py-8 text-center text-ink-3 text-sm">
            {emptyText(source.state, run.startTime === null)}
          </p>
        ) : (
          <LogLines
            ref={lines}
            log={log}
            version={version}
            look={{ wrap, times, colors, query, exact }}
            follow={follow}
            onFollow={setFollow}
            current={current}
            className={cx('no-print', large ? 'min-h-0 flex-1' : heightFor(log.end - log.first, source.state))}
          />
        )}
        {!follow && !isEmpty && (
          <Button
            small
            icon="down"
            className="no-print absolute right-4 bottom-3 shadow-pop"
            onClick={() => setFollow(true)}
          >
            {source.state === 'live' || source.state === 'polling' ? 'Follow' : 'To the end'}
          </Button>
        )}
      </div>
      <PrintedLines source={source} />
    </section>
  )
}

/** A short log has the height of its lines. A long or live log has a fixed height, so that the page does not move. */
function heightFor(lines: number, state: LogState): string {
  if (state === 'live' || state === 'polling' || lines > 24) return 'h-[min(62vh,60rem)] min-h-80'
  return lines > 12 ? 'h-[31rem]' : lines > 5 ? 'h-64' : 'h-32'
}

function emptyText(state: LogState, isWaiting: boolean): string {
  if (state === 'ended') return 'It wrote nothing.'
  if (isWaiting) return 'It has not started. Its output appears here as it is written.'
  return state === 'reading' ? 'Reading the output …' : 'No output yet.'
}

function matchText(total: number, lines: readonly number[], current: number | null, busy: boolean): string {
  if (total === 0) return busy ? '…' : 'none'
  const index = current === null ? -1 : lines.indexOf(current)
  return `${index < 0 ? '' : `${count(index + 1)}/`}${count(total)}${busy ? ' …' : ''}`
}

const STATE_TEXT: Record<LogState, string> = {
  reading: 'reading',
  live: 'live',
  polling: 'read every 3 s: two other logs are live in this browser',
  broken: 'not connected, trying again',
  ended: '',
}

function LogStateMark({ source, isWaiting }: { source: LogSource; isWaiting: boolean }) {
  const { state, log } = source
  const lines = log.end - log.first
  return (
    <span className="flex items-center gap-2 text-ink-3 text-xs">
      {lines > 0 && <span>{plural(lines, 'line')}</span>}
      {state === 'live' && !isWaiting && (
        <span className="size-1.5 rounded-full bg-live motion-safe:animate-skeleton" aria-hidden="true" />
      )}
      <span className="max-sm:sr-only">{isWaiting && state === 'live' ? '' : STATE_TEXT[state]}</span>
    </span>
  )
}

function DownloadLink({ runId }: { runId: string }) {
  return (
    <a
      href={apiUrl(`/v1/runs/${encodeURIComponent(runId)}/logs`)}
      download={`${runId}.log`}
      title="Download"
      aria-label="Download the output"
      className="inline-flex size-7 items-center justify-center rounded-md text-ink-2 hover:bg-hover hover:text-ink"
    >
      <Icon name="download" />
    </a>
  )
}

const MAX_PRINTED_LINES = 500

/** The last lines of the log for printing, without colours. They are rendered when the browser prints. */
function PrintedLines({ source }: { source: LogSource }) {
  const [lines, setLines] = useState<string[]>([])
  useEffect(() => {
    const before = () => {
      const { log } = source
      const from = Math.max(log.first, log.end - MAX_PRINTED_LINES)
      const text = (line: number) => visible(stripAnsi(afterReturn(log.text(line).slice(0, 2000))))
      // The lines are rendered synchronously, because the browser prints the document when this function returns.
      flushSync(() => setLines(Array.from({ length: log.end - from }, (_, i) => text(from + i))))
    }
    const after = () => setLines([])
    window.addEventListener('beforeprint', before)
    window.addEventListener('afterprint', after)
    return () => {
      window.removeEventListener('beforeprint', before)
      window.removeEventListener('afterprint', after)
    }
  }, [source])
  return (
    <pre className="hidden whitespace-pre-wrap p-3 font-mono text-2xs [overflow-wrap:anywhere] print:block">
      {lines.join('\n')}
    </pre>
  )
}
