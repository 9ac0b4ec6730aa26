/** The fleet: every worker with its slots and leases, and the ways in which machines join. */

import { useComputed, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { productName } from '../../../client/agent-names.ts'
import { type Act, useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Segments } from '../../elements/field.tsx'
import { now } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Skeleton } from '../../elements/placeholder.tsx'
import { Reason } from '../../elements/reason.tsx'
import { address, changeQuery } from '../../router.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { SearchFilter, stepActs, ValueFilter } from '../list-filters.tsx'
import { openInspector } from '../open-inspector.ts'
import { PAIR, queueGroups } from '../overview/queue-groups.ts'
import { isPaused, PauseButton, pauseAct, resume } from '../runs/pause.tsx'
import { totals } from '../state/current-totals.ts'
import { host } from '../state/host.ts'
import { live } from '../state/live.ts'
import { config, isLoaded, runs, workers } from '../state/records.ts'
import {
  countWorkers,
  FLEET_FILTERS,
  type FleetFilter,
  type FleetRow,
  filterFleet,
  fleetAgents,
  fleetRowsOf,
  fleetVersions,
} from './fleet-rows.ts'
import { FleetTable } from './fleet-table.tsx'
import { JoinKeys } from './join-keys.tsx'
import { PairWorker, showPairing } from './pair-worker.tsx'
import { ProvisionedMachines } from './provision-machine.tsx'
import { drainWorker, enableWorker, localRefusal, revokeWorker } from './worker-acts.tsx'
import { WorkerCard } from './worker-card.tsx'

const GROUP = 'Fleet'
const MINUTE_MS = 60_000

export function FleetPage() {
  useFreshWorkers()
  // Sandboxes are deleted at their instants, which needs no answer within a second.
  const minute = useComputed(() => Math.floor(now.value / MINUTE_MS) * MINUTE_MS)
  const rows = useComputed(() => fleetRowsOf(workers.value, runs.value.values(), minute.value))
  const { query, fragment } = address.value
  const filter = Object.fromEntries(
    FLEET_FILTERS.flatMap((name) => (query.has(name) ? [[name, query.get(name) ?? '']] : [])),
  )
  const shown = filterFleet(rows.value, filter)
  const view = query.get('view') === 'table' ? 'table' : 'cards'
  const chosen = useSignal<string | undefined>(undefined)
  useFragment(fragment, (id) => {
    chosen.value = id
  })
  useActs([...pageActs(), ...listActs(shown, chosen), ...rows.value.flatMap(workerActs)])
  if (!isLoaded.value)
    return (
      <>
        <PageHead title="Fleet" />
        <Skeleton rows={6} />
      </>
    )
  return (
    <>
      <PageHead title="Fleet" beside={<Summary />} acts={<HeadActs view={view} />} />
      <FleetDemand />
      {rows.value.length > 1 && <FleetFilters rows={rows.value} filter={filter} />}
      {rows.value.length === 0 && <NoWorkers />}
      {rows.value.length > 0 && shown.length === 0 && <NoWorkerFits />}
      {shown.length > 0 && view === 'table' && <FleetTable rows={shown} chosen={chosen.value} />}
      {shown.length > 0 && view === 'cards' && (
        <div class="worker-cards">
          {shown.map((row) => (
            <WorkerCard key={row.worker.id} row={row} isChosen={row.worker.id === chosen.value} />
          ))}
        </div>
      )}
      <ProvisionedMachines />
      <PairWorker />
      <JoinKeys />
    </>
  )
}

function Summary() {
  const { slots, takenSlots, queued } = totals.value
  const count = workers.value.length
  const waiting = queued === 0 ? '' : `, ${countOf(queued, 'run waits', 'runs wait')}`
  return (
    <>
      {countOf(count, 'worker')}
      {count > 0 && `, ${formatCount(takenSlots)} of ${countOf(slots, 'slot')} taken`}
      {waiting}
    </>
  )
}

function HeadActs({ view }: { readonly view: 'cards' | 'table' }) {
  return (
    <>
      <Segments
        label="View"
        value={view}
        options={[
          ['cards', 'Cards'],
          ['table', 'Table'],
        ]}
        choose={(chosen) => changeQuery({ view: chosen === 'cards' ? undefined : chosen })}
      />
      <PauseButton />
      <Button kind="primary" busyWord="Making a token" act={showPairing}>
        Pair a worker
      </Button>
    </>
  )
}

function NoWorkers() {
  const isLocalOff = config.value?.worker.local === false
  return (
    <Empty
      title="No worker is enrolled"
      button={
        <Button kind="primary" act={showPairing}>
          Pair a worker
        </Button>
      }
    >
      Runs wait until a machine joins.
      {isLocalOff && (
        <>
          {' '}
          The host runs none itself, because <a href="/settings#worker.local">worker.local</a> is off.
        </>
      )}
    </Empty>
  )
}

const NoWorkerFits = () => (
  <Empty
    title="No worker fits the filters"
    button={
      <Button act={() => changeQuery(Object.fromEntries(FLEET_FILTERS.map((name) => [name, undefined])))}>
        Show all workers
      </Button>
    }
  >
    {countOf(workers.value.length, 'worker')} in the fleet.
  </Empty>
)

/** `#worker-ID` names a worker, and `#pair`, `#join-keys` a section of the page. */
function useFragment(fragment: string, choose: (id: string) => void): void {
  const isReady = isLoaded.value
  useEffect(() => {
    if (!isReady || fragment === '') return
    const name = decodeURIComponent(fragment)
    if (name.startsWith('worker-')) choose(name.slice('worker-'.length))
    document.getElementById(name)?.scrollIntoView({ block: 'center' })
  }, [fragment, isReady])
}

function pageActs(): Act[] {
  return [{ id: 'pair', title: 'Pair a worker', group: GROUP, act: showPairing }, pauseAct(GROUP)]
}

function listActs(rows: readonly FleetRow[], chosen: { value: string | undefined }): Act[] {
  const found = rows.findIndex(({ worker }) => worker.id === chosen.value)
  return stepActs({
    group: GROUP,
    noun: 'worker',
    count: rows.length,
    at: found === -1 ? undefined : found,
    choose: (at) => {
      chosen.value = rows[at]?.worker.id
    },
  })
}

function workerActs(row: FleetRow): Act[] {
  const { id, name, state } = row.worker
  const refusal = localRefusal(row)
  return [
    state === 'draining'
      ? { id: `enable ${id}`, title: `Enable ${name}`, group: GROUP, act: () => enableWorker(id) }
      : { id: `drain ${id}`, title: `Drain ${name}`, group: GROUP, act: () => drainWorker(id) },
    {
      id: `inspect ${id}`,
      title: `Open the inspector at ${name}`,
      group: GROUP,
      act: () => openInspector(`worker/${id}`),
    },
    {
      id: `revoke ${id}`,
      title: `Revoke ${name}…`,
      group: GROUP,
      unavailable: refusal,
      act: () => revokeWorker(row),
    },
  ]
}

// ---- what waits ----------------------------------------------------------------------------------------------------

/** The host's words for runs that one more worker could take, or that wait for the fleet. */
const FLEET_REASONS = /^(fleet at capacity|no workers connected|all workers |no worker has |worker .+ holds )/

/**
 * The part of the demand that the fleet can cure: free slots, machines, agents. It says too that dispatching is
 * paused.
 */
function FleetDemand() {
  const waiting = [...runs.value.values()].filter(
    ({ status, queueReason = '' }) => status === 'queued' && FLEET_REASONS.test(queueReason),
  )
  if (waiting.length === 0 && !isPaused()) return null
  return (
    <ul class="card padded fleet-demand" aria-label="What the queue waits for">
      {isPaused() && (
        <li>
          <Reason
            fact="Dispatching is paused."
            explanation="Runs in progress go on, and no new ones start."
            cure={
              <Button kind="link" act={resume}>
                Resume dispatching
              </Button>
            }
          />
        </li>
      )}
      {queueGroups(waiting).map(({ fact, explanation, cure, runs: members }) => (
        <li key={fact}>
          <Reason
            fact={`${fact}.`}
            explanation={`${countOf(members.length, 'run waits', 'runs wait')}. ${explanation ?? ''}`}
            cure={
              cure === PAIR && (
                <Button kind="link" act={showPairing}>
                  {PAIR.text}
                </Button>
              )
            }
          />
        </li>
      ))}
    </ul>
  )
}

// ---- fresh workers -------------------------------------------------------------------------------------------------

/** Workers send a heartbeat every 15 s. */
const TURN_MS = 10_000

/** Heartbeats are not pushed, so the page asks for the fleet in turns while somebody sees it. */
function useFreshWorkers(): void {
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.hidden || live.value.state !== 'live') return
      host.listWorkers().then(
        (fleet) => {
          workers.value = fleet.workers
        },
        // The state of the connection tells what is wrong.
        () => {},
      )
    }, TURN_MS)
    return () => clearInterval(timer)
  }, [])
}

// ---- filters -------------------------------------------------------------------------------------------------------

interface FleetFiltersProps {
  readonly rows: readonly FleetRow[]
  readonly filter: FleetFilter
}

/** The filters of the fleet; each stands in the address. */
function FleetFilters({ rows, filter }: FleetFiltersProps) {
  const counts = countWorkers(rows)
  const option = (value: string, text: string, count: number) =>
    [value, `${text} ${formatCount(count)}`] as const
  return (
    <div class="filters" role="search">
      <Segments
        label="State"
        value={filter.state ?? ''}
        choose={(state) => changeQuery({ state })}
        options={[
          option('', 'All', rows.length),
          option('online', 'Online', counts.online),
          option('draining', 'Draining', counts.draining),
          option('offline', 'Offline', counts.offline),
        ]}
      />
      <SearchFilter
        label="Search the workers"
        group="Fleet"
        placeholder="Name, address or run"
        value={filter.q}
      />
      <ValueFilter
        name="agent"
        all="Every agent"
        values={fleetAgents(rows)}
        chosen={filter.agent}
        text={productName}
      />
      <ValueFilter name="version" all="Every version" values={fleetVersions(rows)} chosen={filter.version} />
    </div>
  )
}
