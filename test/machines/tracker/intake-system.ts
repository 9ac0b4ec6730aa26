/** A ticket intake with a scripted tracker and runs of its own, which a test starts and ends. */
import type { HostContext } from '../../../actors/host-context.ts'
import type { RunManager } from '../../../actors/runs/run-manager.ts'
import { StoredCollection } from '../../../actors/runtime/stored-collection.ts'
import { TicketIntake, type TicketsChange } from '../../../actors/tracker/ticket-intake.ts'
import type { TrackerConnection } from '../../../actors/tracker/tracker-connection.ts'
import type { TrackerPollEvent } from '../../../actors/tracker/tracker-poll.machine.ts'
import { DamagedRecord } from '../../../core/damage.ts'
import type { KeyList, KeyValueCollection, KeyValues } from '../../../core/ports/store.ts'
import type { TrackedTicket, Tracker } from '../../../core/ports/tracker.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { TicketObservation } from '../../../core/tickets/run-progress.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import { aRun } from '../../rules/run/runs.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog } from '../../support/recording-log.ts'
import { createConfig } from '../../support/sample-configs.ts'

/** In the place of a value that cannot be read. */
export const DAMAGED = {}

class MapKeyValues implements KeyValues, KeyList {
  readonly #collections = new Map<KeyValueCollection, Map<string, object>>()
  reads = 0

  collection(name: KeyValueCollection): Map<string, object> {
    const known = this.#collections.get(name) ?? new Map<string, object>()
    this.#collections.set(name, known)
    return known
  }
  get(name: KeyValueCollection, key: string): object | undefined {
    this.reads += 1
    const value = this.collection(name).get(key)
    if (value !== DAMAGED) return value
    throw new DamagedRecord({ id: `${name} ${key}`, where: name, message: 'it is damaged' })
  }
  all(name: KeyValueCollection): Iterable<readonly [string, object]> {
    const rows = [...this.collection(name)].filter(([, value]) => value !== DAMAGED)
    return rows.sort(([a], [b]) => (a < b ? -1 : 1))
  }
  keys(name: KeyValueCollection): Iterable<string> {
    return [...this.collection(name).keys()].sort()
  }
}

/** Runs that end when the test says so. */
class ManualRuns {
  readonly active = new Map<string, Run>()
  readonly ends = new Map<string, string>()
  /** What has happened: `run T` for a run that was created, `left T` for a ticket that is no longer eligible. */
  readonly events: string[] = []
  activeMax = Number.POSITIVE_INFINITY
  onTicketLeft: RunManager['onTicketLeft'] = () => {}

  createRun(ticket: Ticket): Result<string> {
    if (this.active.size >= this.activeMax) return no('unavailable', 'the queue is full')
    this.events.push(`run ${ticket.id} ${ticket.title}`)
    this.active.set(ticket.id, aRun({ id: `run-${this.events.length}`, ticket }))
    return yes(ticket.id)
  }
  activeTickets = () => this.active.keys()
  activeRunOf = (ticketId: string) => this.active.get(ticketId)?.id
  lastFinishedAt = ({ id }: Ticket) => this.ends.get(id)
}

export class IntakeSystem {
  readonly clock = new ManualClock()
  readonly keyValues = new MapKeyValues()
  readonly runs = new ManualRuns()
  readonly changes: TicketsChange[] = []
  tickets = new Map<string, TrackedTicket>()
  /** How the tracker answers a move; `late`: made, and listed only when the next one is answered. */
  moveAnswer: 'made' | 'late' | 'refused' | 'unavailable' = 'made'
  onPollFinished: () => void = () => {}
  intake: TicketIntake
  observations: StoredCollection<TicketObservation>
  #lateMoves: (() => void)[] = []
  #openListing: (() => void) | undefined
  #config = createConfig({ tracker: { driver: 'local', path: '/nowhere' } }).effective

  constructor() {
    const { intake, observations } = this.#start()
    this.intake = intake
    this.observations = observations
    this.runs.onTicketLeft = ({ id }) => {
      this.runs.events.push(`left ${id}`)
      // A queued run ends at once, and one with a worker later.
      if (this.runs.active.get(id)?.status === 'queued') this.endRun(id)
    }
  }

  #start() {
    const keyValues = this.keyValues
    const observations = new StoredCollection<TicketObservation>('ticket', {
      keyValues,
      requestCommit: () => {},
    })
    const context = {
      clock: this.clock,
      random: { bytes: (count: number) => new Uint8Array(count), fraction: () => 0.5 },
      log: createRecordingLog(),
      store: { database: { keyValues } },
      config: () => this.#config,
      requestCommit: () => {},
      system: {
        send: (_kind: string, _key: string, { type }: TrackerPollEvent) => {
          if (type === 'poll finished') this.onPollFinished()
        },
      },
    }
    const connection = {
      ask: <T>(request: (tracker: Tracker) => Promise<T>) => request(this.#tracker()),
      reportAnswer: () => {},
    }
    // Only these parts of the three are used.
    const intake = new TicketIntake(context as unknown as HostContext, this.runs as unknown as RunManager, {
      connection: connection as unknown as TrackerConnection,
      observations,
      onTicketsChanged: (change) => void this.changes.push(change),
    })
    return { intake, observations }
  }

  #tracker(): Tracker {
    return {
      listTickets: async () => {
        const tickets = [...this.tickets.values()]
        if (this.#openListing !== undefined) await new Promise<void>((open) => this.#holdListing(open))
        return yes({ tickets, problems: [] })
      },
      watch: () => () => {},
      moveTicket: async (id, state, from) => this.#move(id, state, from),
      projects: async () => yes([]),
    }
  }

  #holdListing(open: () => void): void {
    this.#openListing = open
  }

  #move(id: string, state: string, from: readonly string[] | undefined): Result<void> {
    if (this.moveAnswer === 'unavailable') return no('unavailable', 'no route to it')
    if (this.moveAnswer === 'refused') return no('forbidden', 'not allowed')
    const known = this.tickets.get(id)
    if (known === undefined || from?.includes(known.ticket.state) === false)
      return no('gone', 'it is elsewhere')
    const move = () => this.put({ ...known.ticket, state })
    for (const late of this.#lateMoves.splice(0)) late()
    if (this.moveAnswer === 'late') this.#lateMoves.push(move)
    else move()
    return yes(undefined)
  }

  // ---- what happens ------------------------------------------------------------------------------------------------

  put(ticket: Ticket): void {
    this.tickets.set(ticket.id, { ticket, closed: false })
  }

  setEligibleStates(states: readonly string[]): void {
    const { tracker } = this.#config
    const eligible: ServiceConfig['tracker']['eligible'] = { ...tracker.eligible, states: [...states] }
    this.#config = { ...this.#config, tracker: { ...tracker, eligible } }
    this.intake.onConfigChange()
  }

  async poll(): Promise<void> {
    this.intake.runEffect({ type: 'intake.poll' })
    await this.settle()
  }

  /** Begins a poll whose listing arrives at `endPoll`. */
  async beginPoll(): Promise<void> {
    if (this.#openListing !== undefined) return
    this.#openListing = () => {}
    await this.poll()
  }

  async endPoll(): Promise<void> {
    const open = this.#openListing
    this.#openListing = undefined
    open?.()
    await this.settle()
  }

  /** A worker takes the run. */
  startRun(ticketId: string): void {
    const run = this.runs.active.get(ticketId)
    if (run === undefined) return
    this.runs.active.set(ticketId, { ...run, status: 'running' })
    this.intake.moveTicket(ticketId, 'In Progress')
  }

  /** @param state where the ticket goes */
  endRun(ticketId: string, state?: string): void {
    const run = this.runs.active.get(ticketId)
    if (run === undefined) return
    const finishedAt = new Date(this.clock.now()).toISOString()
    this.runs.active.delete(ticketId)
    this.runs.ends.set(ticketId, finishedAt)
    if (state !== undefined) this.intake.moveTicket(ticketId, state)
    this.intake.onRunEnded({ ...run, finishedAt })
    this.intake.onRunOver(ticketId)
  }

  /** Another job of the ticket's finished run begins, and later fails: the run has then ended when it did before. */
  startFollowUp(ticketId: string): void {
    const { active, ends } = this.runs
    const known = this.tickets.get(ticketId)
    if (known === undefined || active.has(ticketId) || !ends.has(ticketId)) return
    active.set(ticketId, aRun({ id: 'follow-up', ticket: known.ticket, status: 'running' }))
  }

  endFollowUp(ticketId: string): void {
    if (this.runs.activeRunOf(ticketId) !== 'follow-up') return
    this.runs.active.delete(ticketId)
    this.intake.onRunOver(ticketId)
  }

  async restart(): Promise<void> {
    await this.endPoll()
    this.intake.stop()
    const { intake, observations } = this.#start()
    this.intake = intake
    this.observations = observations
    intake.moves.restore()
    await this.poll()
  }

  /** Commits what is waiting, and lets the tracker answer. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 3; turn++) {
      for (const participant of [this.observations, this.intake.moves]) {
        const contribution = participant.contribute()
        for (const write of contribution?.writes ?? []) {
          if (write.table !== 'key-value') continue
          const collection = this.keyValues.collection(write.collection)
          if (write.value === null) collection.delete(write.key)
          else collection.set(write.key, write.value)
        }
        contribution?.onCommitted()
      }
      await this.clock.settle()
    }
  }
}
