/**
 * The content of the command palette: what is valid now, then places, then runs and tickets.
 *
 * What is not valid now is listed only when its name is typed, with the reason, and cannot be started.
 */

import { useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Ticket } from '../../../protocol/run.ts'
import type { Act } from '../../elements/acts.ts'
import { Icon } from '../../elements/glyph.tsx'
import { Keys } from '../../elements/key-help.tsx'
import { showError } from '../../elements/toasts.ts'
import { navigate } from '../../router.ts'
import { runAddress, ticketAddress } from '../addresses.ts'
import { pauseForTyping } from '../state/asked-list.ts'
import { FOR_ROWS, host } from '../state/host.ts'
import { runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { matchWords } from './match-words.ts'

const FOUND_MAX = 8

interface Found {
  readonly act: Act
  /** The letters of the title that were typed. */
  readonly ranges: readonly (readonly [from: number, to: number])[]
}

interface PaletteListProps {
  /** The acts of the page below. */
  readonly acts: readonly Act[]
  readonly close: () => void
}

export function PaletteList({ acts, close }: PaletteListProps) {
  const typed = useSignal('')
  const chosen = useSignal(0)
  const wanted = typed.value.trim()
  const tickets = useRequest(wanted, (signal) => findTickets(wanted, signal))
  const found = findActs(acts, wanted, tickets.data ?? [])
  const at = Math.min(chosen.value, found.length - 1)

  function start({ act }: Found): void {
    if (act.unavailable !== undefined) return
    close()
    Promise.resolve(act.act()).catch(showError)
  }

  function onKeyDown(event: KeyboardEvent): void {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (step !== 0) {
      event.preventDefault()
      chosen.value = (at + step + found.length) % Math.max(1, found.length)
      return
    }
    const entry = found[at]
    if (event.key !== 'Enter' || entry === undefined) return
    event.preventDefault()
    start(entry)
  }

  return (
    <div class="palette">
      <div class="palette-head">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Search or act"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found.length === 0 ? undefined : `palette-${at}`}
          placeholder="Search or act"
          value={typed.value}
          autofocus
          onInput={(event) => {
            typed.value = event.currentTarget.value
            chosen.value = 0
          }}
          onKeyDown={onKeyDown}
        />
        <kbd>Esc</kbd>
      </div>
      <div class="palette-list" id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, index) => (
          <PaletteRow
            key={entry.act.id}
            entry={entry}
            id={`palette-${index}`}
            isChosen={index === at}
            isFirstOfGroup={found[index - 1]?.act.group !== entry.act.group}
            start={() => start(entry)}
          />
        ))}
        {found.length === 0 && <p class="quiet">Nothing has this name.</p>}
      </div>
    </div>
  )
}

interface RowProps {
  readonly entry: Found
  readonly id: string
  readonly isChosen: boolean
  readonly isFirstOfGroup: boolean
  readonly start: () => void
}

function PaletteRow({ entry: { act, ranges }, id, isChosen, isFirstOfGroup, start }: RowProps) {
  const row = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    if (isChosen) row.current?.scrollIntoView({ block: 'nearest' })
  }, [isChosen])
  return (
    <>
      {isFirstOfGroup && (
        <div class="palette-group" role="presentation">
          {act.group}
        </div>
      )}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the input above handles the keys of the list */}
      <div
        ref={row}
        class="palette-row"
        id={id}
        role="option"
        tabIndex={-1}
        aria-selected={isChosen}
        aria-disabled={act.unavailable === undefined ? undefined : 'true'}
        onClick={start}
      >
        <span class="ellipsis">{markedText(act.title, ranges)}</span>
        {act.unavailable !== undefined && <span class="faint ellipsis">{act.unavailable}</span>}
        {act.keys !== undefined && (
          <span class="keys">
            <Keys keys={act.keys} />
          </span>
        )}
      </div>
    </>
  )
}

function markedText(text: string, ranges: Found['ranges']) {
  let end = 0
  const parts = ranges.map(([from, to]) => {
    const before = text.slice(end, from)
    end = to
    return (
      <>
        {before}
        <strong>{text.slice(from, to)}</strong>
      </>
    )
  })
  return (
    <>
      {parts}
      {text.slice(end)}
    </>
  )
}

async function findTickets(q: string, signal: AbortSignal): Promise<readonly Ticket[]> {
  if (q === '') return []
  await pauseForTyping(signal)
  return host.listTickets({ ...FOR_ROWS, q, limit: FOUND_MAX }, { signal })
}

/** Acts of the page first, places next; runs and tickets only for a typed text. */
function findActs(acts: readonly Act[], wanted: string, tickets: readonly Ticket[]): readonly Found[] {
  const all =
    wanted === ''
      ? acts.filter(({ unavailable }) => unavailable === undefined)
      : [...acts, ...records(tickets)]
  const counts = new Map<string, number>()
  const found: Found[] = []
  for (const act of all) {
    const ranges = matchWords(act.title, wanted)
    const count = counts.get(act.group) ?? 0
    if (ranges === undefined || count >= FOUND_MAX) continue
    counts.set(act.group, count + 1)
    found.push({ act, ranges })
  }
  return found
}

function* records(tickets: readonly Ticket[]): Generator<Act> {
  for (const { id, ticket } of [...runs.value.values()].reverse())
    yield {
      id: `run ${id}`,
      title: `${ticket.identifier} ${ticket.title}`,
      group: 'Runs',
      act: () => navigate(runAddress(id)),
    }
  for (const { id, identifier, title } of tickets)
    yield {
      id: `ticket ${id}`,
      title: `${identifier} ${title}`,
      group: 'Tickets',
      act: () => navigate(ticketAddress(id)),
    }
}
