/** The fleet as a table, a line for each worker: for large fleets, and for comparing. */
import { useSignal } from '@preact/signals'
import { productName } from '../../../client/agent-names.ts'
import { describeVersion, foundAgents, platformOf } from '../../../client/worker-words.ts'
import { now } from '../../elements/moments.tsx'
import { formatCount } from '../../text/amounts.ts'
import { ageOf, formatShortAge } from '../../text/times.ts'
import { health } from '../state/records.ts'
import type { FleetRow } from './fleet-rows.ts'
import { RenameField, SituationDot, StateWord, WorkerButtons } from './worker-card.tsx'

export function FleetTable({
  rows,
  chosen,
}: {
  readonly rows: readonly FleetRow[]
  readonly chosen: string | undefined
}) {
  return (
    <div class="card scrolled">
      <table class="rows fleet-table">
        <thead>
          <tr>
            <th>Worker</th>
            <th>State</th>
            <th class="number">Slots</th>
            <th>Platform</th>
            <th>Version</th>
            <th>Agents</th>
            <th>Address</th>
            <th class="number">Heartbeat</th>
            <th>
              <span class="visually-hidden">Acts</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <WorkerLine key={row.worker.id} row={row} isChosen={row.worker.id === chosen} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function WorkerLine({ row, isChosen }: { readonly row: FleetRow; readonly isChosen: boolean }) {
  const { worker, situation } = row
  const { id, name, capabilities, activeRuns, address } = worker
  const isRenaming = useSignal(false)
  const agents = foundAgents(worker).map(productName).join(', ')
  return (
    <tr id={`worker-${id}`} class={isChosen ? 'chosen' : ''}>
      <td class="ellipsis fleet-name" title={name}>
        <SituationDot situation={situation} />{' '}
        {isRenaming.value ? <RenameField row={row} isRenaming={isRenaming} /> : <strong>{name}</strong>}
      </td>
      <td class="nowrap">
        {situation === 'online' && worker.local !== true ? 'Online' : <StateWord row={row} />}
      </td>
      <td class="number nowrap">
        {capabilities === undefined
          ? '–'
          : `${formatCount(activeRuns)} of ${formatCount(capabilities.maxConcurrency)}`}
      </td>
      <td class="nowrap">{capabilities === undefined ? '–' : platformOf(worker)}</td>
      <td class="nowrap">
        {capabilities === undefined
          ? '–'
          : describeVersion(worker, health.value?.version ?? capabilities.version)}
      </td>
      <td class="ellipsis fleet-agents" title={agents}>
        {agents === '' ? '–' : agents}
      </td>
      <td class="nowrap">{address ?? '–'}</td>
      <td class="number nowrap quiet">
        <Seen row={row} />
      </td>
      <td class="number nowrap">
        <WorkerButtons row={row} isRenaming={isRenaming} />
      </td>
    </tr>
  )
}

const Seen = ({ row: { worker } }: { readonly row: FleetRow }) => (
  <>{formatShortAge(ageOf(worker.lastSeenAt, now.value))}</>
)
