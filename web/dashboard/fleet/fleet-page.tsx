/** The fleet: every worker with its slots and leases, and the ways in which machines join. */
import { useComputed, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { type Act, useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { now } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Skeleton } from '../../elements/placeholder.tsx'
import { Segments } from '../../elements/segments.tsx'
import { showError } from '../../elements/toasts.ts'
import { address, changeQuery } from '../../router.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { openInspector } from '../open-inspector.ts'
import { totals } from '../state/current-totals.ts'
import { host } from '../state/host.ts'
import { config, isLoaded, runs, workers } from '../state/records.ts'
import { FleetDemand } from './fleet-demand.tsx'
import { FleetFilters } from './fleet-filters.tsx'
import { FLEET_FILTERS, type FleetRow, filterFleet, fleetRowsOf } from './fleet-rows.ts'
import { FleetTable } from './fleet-table.tsx'
import { JoinKeys } from './join-keys.tsx'
import { PairWorker, showPairing } from './pair-worker.tsx'
import { ProvisionedMachines } from './provision-steps.tsx'
import { useFreshWorkers } from './use-fresh-workers.ts'
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
  const search = useRef<HTMLInputElement>(null)
  const chosen = useSignal<string | undefined>(undefined)
  useFragment(fragment, (id) => {
    chosen.value = id
  })
  useActs([...pageActs(search), ...listActs(shown, chosen), ...rows.value.flatMap(workerActs)])
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
      {rows.value.length > 1 && <FleetFilters rows={rows.value} filter={filter} search={search} />}
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
  const isPaused = config.value?.policy.paused === true
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
      <Button act={changePause} busyWord={isPaused ? 'Resuming' : 'Pausing'}>
        {isPaused ? 'Resume dispatching' : 'Pause dispatching'}
      </Button>
      <Button kind="primary" busyWord="Making a token" act={showPairing}>
        Pair a worker
      </Button>
    </>
  )
}

const changePause = (): Promise<void> =>
  (config.value?.policy.paused === true ? host.resumeDispatch() : host.pauseDispatch()).then(
    () => {},
    showError,
  )

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

function pageActs(search: { readonly current: HTMLInputElement | null }): Act[] {
  return [
    { id: 'pair', title: 'Pair a worker', group: GROUP, act: showPairing },
    {
      id: 'pause',
      title: config.value?.policy.paused === true ? 'Resume dispatching' : 'Pause dispatching',
      group: GROUP,
      act: changePause,
    },
    {
      id: 'search',
      title: 'Search the workers',
      group: GROUP,
      keys: '/',
      act: () => search.current?.focus(),
    },
  ]
}

function listActs(rows: readonly FleetRow[], chosen: { value: string | undefined }): Act[] {
  const step = (by: number) => {
    const at = rows.findIndex(({ worker }) => worker.id === chosen.value)
    const next = at === -1 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by))
    chosen.value = rows[next]?.worker.id
  }
  return [
    { id: 'next worker', title: 'Next worker', group: GROUP, keys: 'j', act: () => step(1) },
    { id: 'previous worker', title: 'Previous worker', group: GROUP, keys: 'k', act: () => step(-1) },
  ]
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
