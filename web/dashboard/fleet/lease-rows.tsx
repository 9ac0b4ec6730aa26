/** A row for each run that a worker executes, and for each terminal that is open there. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, glyphWord, Icon } from '../../elements/glyph.tsx'
import { now, Span } from '../../elements/moments.tsx'
import { countOf } from '../../text/amounts.ts'
import { formatDuration } from '../../text/times.ts'
import { runAddress } from '../addresses.ts'
import { loadRun } from '../state/read-missing-runs.ts'
import { config, runs } from '../state/records.ts'
import type { FleetRow } from './fleet-rows.ts'
import { leaseEndOf } from './worker-state.ts'

/** More of one worker would push the others out of view. */
const SHOWN_FIRST = 6

export function LeaseRows({ row }: { readonly row: FleetRow }) {
  const isOpen = useSignal(false)
  const { worker, leases } = row
  const shown = isOpen.value || leases.length <= SHOWN_FIRST + 1 ? leases : leases.slice(0, SHOWN_FIRST)
  const { attachedRuns = [], attachSessions = 0, activeRuns, name } = worker
  const isOffline = worker.connection === 'offline'
  const unnamed = activeRuns - leases.length
  const hidden = attachSessions - attachedRuns.length
  if (leases.length === 0 && attachSessions === 0 && unnamed <= 0) return null
  return (
    <ul class="leases" aria-label={`Runs and terminals of ${name}`}>
      {shown.map((run) => (
        <LeaseRow key={run.id} run={run} isOffline={isOffline} row={row} />
      ))}
      {shown.length < leases.length && (
        <li class="lease quiet">
          <Button
            kind="link"
            act={() => {
              isOpen.value = true
            }}
          >
            Show {countOf(leases.length - shown.length, 'more run')}
          </Button>
        </li>
      )}
      {unnamed > 0 && <li class="lease quiet">{countOf(unnamed, 'more run')}</li>}
      {attachedRuns.map((id) => (
        <TerminalRow key={id} id={id} />
      ))}
      {hidden > 0 && (
        <li class="lease quiet">{countOf(hidden, 'terminal')} from before the host’s restart</li>
      )}
    </ul>
  )
}

interface LeaseProps {
  readonly run: Run
  readonly isOffline: boolean
  readonly row: FleetRow
}

function LeaseRow({ run, isOffline, row }: LeaseProps) {
  const { id, status, ticket, startedAt, createdAt, costTotals } = run
  return (
    <li class="lease">
      {isOffline ? <Glyph name="offline" alone /> : <Glyph name={status} alone label={glyphWord(status)} />}
      <span class="mono faint">{ticket.identifier}</span>
      <a class="ellipsis lease-link" href={runAddress(id)} title={ticket.title}>
        {ticket.title}
      </a>
      <span class="number quiet">
        {isOffline ? <TimeLeft row={row} /> : <Span from={startedAt ?? createdAt} />}
      </span>
      <span class="number">{formatMoney(costTotals)}</span>
    </li>
  )
}

function TimeLeft({ row: { worker } }: { readonly row: FleetRow }) {
  const fleet = config.value?.fleet
  const end = fleet === undefined ? undefined : leaseEndOf(worker, fleet)
  if (end === undefined) return <>–</>
  return <>{end <= now.value ? 'waited for' : `${formatDuration(end - now.value)} left`}</>
}

function TerminalRow({ id }: { readonly id: string }) {
  const ticket = runs.value.get(id)?.ticket
  // The run ended, perhaps long ago.
  useEffect(() => {
    if (runs.value.has(id)) return
    // Without its record the row shows the id.
    loadRun(id).catch(() => {})
  }, [id])
  return (
    <li class="lease">
      <Icon name="terminal" label="Terminal" />
      <span class="mono faint">{ticket?.identifier ?? ''}</span>
      <a class="ellipsis lease-link" href={runAddress(id)} title={ticket?.title}>
        {ticket?.title ?? id}
      </a>
      <span class="quiet">terminal</span>
      <span />
    </li>
  )
}
