/**
 * A worker as a card: its state in words, its facts, its slots, a row for each lease, and what follows from its state.
 */
import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useId, useMemo, useRef } from 'preact/hooks'
import { productName } from '../../../client/agent-names.ts'
import { platformOf } from '../../../client/worker-words.ts'
import type { WorkerAgents } from '../../../protocol/worker.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph } from '../../elements/glyph.tsx'
import { Menu } from '../../elements/menu.tsx'
import { now } from '../../elements/moments.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { formatCount } from '../../text/amounts.ts'
import { ageOf, dayOf, formatClock, formatInstant, formatShortAge } from '../../text/times.ts'
import { openInspector } from '../open-inspector.ts'
import { config, health } from '../state/records.ts'
import type { FleetRow } from './fleet-rows.ts'
import { LeaseRows } from './lease-rows.tsx'
import {
  drainWorker,
  enableHint,
  enableWorker,
  localRefusal,
  renameWorker,
  revokeWorker,
} from './worker-acts.tsx'
import { neededAgents, retainedSentence, stateSentence, stateWord } from './worker-state.ts'

/** Draws the card anew only when something of it has changed, so that many workers stay quick. */
export function WorkerCard({ row, isChosen }: { readonly row: FleetRow; readonly isChosen: boolean }) {
  const { worker, leases, retained } = row
  return useMemo(
    () => <CardContent row={row} isChosen={isChosen} />,
    [JSON.stringify(worker), isChosen, retained.length, leases.length, ...leases],
  )
}

function CardContent({ row, isChosen }: { readonly row: FleetRow; readonly isChosen: boolean }) {
  const { worker, situation } = row
  const { id, name, capabilities, activeRuns } = worker
  const isRenaming = useSignal(false)
  const element = useRef<HTMLElement>(null)
  useEffect(() => {
    if (isChosen) element.current?.scrollIntoView({ block: 'nearest' })
  }, [isChosen])
  const slots = capabilities?.maxConcurrency
  return (
    <article
      ref={element}
      class={`card worker-card${isChosen ? ' chosen' : ''}`}
      id={`worker-${id}`}
      aria-label={name}
    >
      <header class="worker-head">
        <SituationDot situation={situation} />
        {isRenaming.value ? (
          <RenameField row={row} isRenaming={isRenaming} />
        ) : (
          <h2 class="ellipsis" title={name}>
            {name}
          </h2>
        )}
        <StateWord row={row} />
        <WorkerButtons row={row} isRenaming={isRenaming} />
      </header>
      <WorkerFacts row={row} />
      <WorkerAgentList agents={capabilities?.agents} />
      {slots !== undefined && (
        <div class="worker-slots">
          <Slots taken={activeRuns} count={slots} isOffline={worker.connection === 'offline'} />
          <span class="quiet number nowrap">
            {formatCount(activeRuns)} of {formatCount(slots)} {slots === 1 ? 'slot' : 'slots'}
          </span>
        </div>
      )}
      <LeaseRows row={row} />
      <Sentence row={row} />
    </article>
  )
}

/** Each situation has a shape of its own: disc, dashed ring, ring, triangle. */
export function SituationDot({ situation }: Pick<FleetRow, 'situation'>) {
  const isAway = situation === 'offline' || situation === 'new'
  return (
    <svg class={`worker-dot ${situation}`} viewBox="0 0 10 10" aria-hidden="true">
      {situation === 'online' && <circle cx="5" cy="5" r="4" fill="currentColor" />}
      {situation === 'draining' && <circle cx="5" cy="5" r="4" stroke-dasharray="2 1.6" />}
      {situation === 'drained' && <circle cx="5" cy="5" r="4" />}
      {isAway && <path d="M5 1.2l4 7.3H1z" stroke-linejoin="round" />}
    </svg>
  )
}

export function StateWord({ row }: { readonly row: FleetRow }) {
  const isAway = row.situation === 'offline' || row.situation === 'new'
  const word = stateWord(row, isAway ? now.value : 0)
  if (word !== undefined)
    return <span class={`worker-state ${isAway ? 'worker-away' : 'quiet'}`}>{word}</span>
  if (row.worker.local === true) return <span class="worker-state quiet">started by the host</span>
  return <span class="visually-hidden">Online</span>
}

interface RenamingProps {
  readonly row: FleetRow
  readonly isRenaming: Signal<boolean>
}

export function WorkerButtons({ row, isRenaming }: RenamingProps) {
  const { id, name, state } = row.worker
  return (
    <span class="worker-acts">
      {state === 'draining' ? (
        <span title={enableHint(row)}>
          <Button small label={`Enable ${name}`} busyWord="Enabling" act={() => enableWorker(id)}>
            Enable
          </Button>
        </span>
      ) : (
        <Button small label={`Drain ${name}`} busyWord="Draining" act={() => drainWorker(id)}>
          Drain
        </Button>
      )}
      <Menu
        label={`More about ${name}`}
        entries={[
          {
            text: 'Rename',
            unavailable: localRefusal(row),
            act: () => {
              isRenaming.value = true
            },
          },
          {
            text: 'Copy id',
            act: async () => {
              await navigator.clipboard.writeText(id)
              showOutcome(`The id of ${name} is copied.`)
            },
          },
          { text: 'Open inspector', act: () => openInspector(`worker/${id}`) },
          {
            text: 'Revoke…',
            isDestructive: true,
            unavailable: localRefusal(row),
            act: () => revokeWorker(row),
          },
        ]}
      />
    </span>
  )
}

/** Enter keeps the new name; Escape and leaving the field keep the old one. */
export function RenameField({ row: { worker }, isRenaming }: RenamingProps) {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    field.current?.select()
  }, [])
  const end = () => {
    isRenaming.value = false
  }
  return (
    <form
      class="rename"
      onSubmit={(event) => {
        event.preventDefault()
        const name = field.current?.value.trim() ?? ''
        end()
        if (name !== '' && name !== worker.name) void renameWorker(worker.id, name)
      }}
    >
      <input
        ref={field}
        class="input"
        aria-label={`New name of ${worker.name}`}
        defaultValue={worker.name}
        autocomplete="off"
        onBlur={end}
        onKeyDown={(event) => {
          if (event.key === 'Escape') end()
        }}
      />
    </form>
  )
}

function WorkerFacts({ row }: { readonly row: FleetRow }) {
  const { worker } = row
  const { capabilities, address, joinKey, ephemeral } = worker
  const version = capabilities?.version
  const hostVersion = health.value?.version
  const differs = version !== undefined && hostVersion !== undefined && version !== hostVersion
  const facts = [
    address ?? '',
    capabilities?.gitVersion === undefined ? '' : `git ${capabilities.gitVersion}`,
    joinKey === undefined ? '' : ephemeral === true ? 'Ephemeral, by a join key' : 'By a join key',
  ]
  return (
    <ul class="worker-facts">
      {capabilities !== undefined && <li>{platformOf(worker)}</li>}
      {version !== undefined && <li>{differs ? `${version}, host has ${hostVersion}` : version}</li>}
      <Heartbeat row={row} />
      {facts.filter(Boolean).map((fact) => (
        <li key={fact}>{fact}</li>
      ))}
      {row.retained.length > 0 && <li>{retainedSentence(row, now.value)}</li>}
    </ul>
  )
}

/** Older heartbeats say nothing about the worker: the page asks for them in turns. */
const Heartbeat = ({ row: { worker, situation } }: { readonly row: FleetRow }) => {
  const { lastSeenAt } = worker
  if (lastSeenAt === undefined || situation === 'new') return null
  if (worker.connection === 'offline') return <li>Last heartbeat {lastSeen(lastSeenAt, now.value)}</li>
  return <li>Heartbeat {formatShortAge(ageOf(lastSeenAt, now.value))} ago</li>
}

/** The seconds matter on the same day. */
const lastSeen = (at: string, present: number): string =>
  dayOf(new Date(at)) === dayOf(new Date(present)) ? formatClock(at) : formatInstant(at, present)

const NO_MEMORY_LIMIT =
  'It has no memory controller: limits hold for single processes, and not for a run as a whole.'

function Sentence({ row }: { readonly row: FleetRow }) {
  const fleet = config.value?.fleet
  // Only what is said about an absent worker changes with the time.
  const present = row.situation === 'offline' ? now.value : 0
  const sentence = fleet === undefined ? undefined : stateSentence(row, fleet, present)
  const hasNoLimit = row.worker.capabilities?.limits === 'rlimit'
  if (sentence === undefined && !hasNoLimit) return null
  return (
    <div class="worker-sentence">
      {sentence !== undefined && <p>{sentence}</p>}
      {hasNoLimit && <p class="worker-away">{NO_MEMORY_LIMIT}</p>}
    </div>
  )
}

// ---- agents --------------------------------------------------------------------------------------------------------

/**
 * The agents that the worker can run, and those that it cannot, with the cure where runs need them. Workers of an
 * earlier version name none.
 */
function WorkerAgentList({ agents }: { readonly agents: WorkerAgents | undefined }) {
  if (agents === undefined) return null
  const needed = config.value === undefined ? new Set() : neededAgents(config.value)
  const entries = Object.entries(agents)
  const found = entries.filter(([, agent]) => agent.found)
  const absent = entries.filter(([provider, agent]) => !agent.found && !needed.has(provider))
  const problems = entries.filter(
    ([provider, agent]) =>
      (agent.found && agent.problem !== undefined) || (!agent.found && needed.has(provider)),
  )
  return (
    <>
      <ul class="worker-facts">
        {found.map(([provider, { version, loggedIn }]) => (
          <li key={provider}>
            {productName(provider)}
            {version === undefined ? '' : ` ${version}`}
            {loggedIn === true && <span class="faint"> logged in</span>}
          </li>
        ))}
        {absent.map(([provider, { problem }]) => (
          <li class="faint" key={provider} title={problem}>
            no {productName(provider)}
          </li>
        ))}
      </ul>
      {problems.map(([provider, { problem, found: isFound }]) => (
        <p class="worker-problem" key={provider}>
          <Glyph name="needs-you" />
          <span>
            {productName(provider)} {isFound ? 'has a problem' : 'is not found'}:{' '}
            <span class="quiet">{problem ?? 'install it on the machine'}</span>
          </span>
        </p>
      ))}
    </>
  )
}

// ---- slots ---------------------------------------------------------------------------------------------------------

const HEIGHT = 10
/** More slots than these are drawn as one bar. */
const SLOTS_DRAWN_MAX = 32

interface SlotsProps {
  readonly taken: number
  readonly count: number
  readonly isOffline: boolean
}

/** Slots are filled, empty, and hatched for the leases of an absent worker. */
function Slots({ taken, count, isOffline }: SlotsProps) {
  const id = useId()
  if (count === 0) return null
  const isDrawn = count <= SLOTS_DRAWN_MAX
  const [width, gap] = isDrawn ? [widthOf(count), count <= 12 ? 4 : 3] : [280, 0]
  const filled = isOffline ? `url(#${id})` : 'currentColor'
  const total = isDrawn ? count * (width + gap) - gap : width
  return (
    <svg
      class={`slots${isOffline ? ' offline' : ''}`}
      width={total}
      height={HEIGHT}
      viewBox={`0 0 ${total} ${HEIGHT}`}
      preserveAspectRatio="xMinYMid meet"
      aria-hidden="true"
    >
      <pattern id={id} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <path d="M1 0v5" stroke="currentColor" stroke-width="2.2" />
      </pattern>
      {isDrawn ? (
        Array.from({ length: count }, (_, at) => (
          <rect
            key={at}
            class={at < taken ? 'taken' : 'free'}
            x={at * (width + gap) + 0.5}
            y="0.5"
            width={width - 1}
            height={HEIGHT - 1}
            rx="2"
            fill={at < taken ? filled : 'none'}
          />
        ))
      ) : (
        <>
          <rect class="free" x="0.5" y="0.5" width={width - 1} height={HEIGHT - 1} rx="2" fill="none" />
          <rect
            class="taken"
            x="0.5"
            y="0.5"
            width={(Math.min(taken, count) / count) * (width - 1)}
            height={HEIGHT - 1}
            rx="2"
            fill={filled}
          />
        </>
      )}
    </svg>
  )
}

const widthOf = (count: number): number => (count <= 6 ? 34 : count <= 12 ? 18 : 8)
