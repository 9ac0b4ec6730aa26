/**
 * One seed's world: a host, its workers, the lines between them, the tracker, and the people.
 *
 * It joins the parts, lets the plan's faults happen to them, shows everything that happens to the laws, and writes it
 * into the trace. Everything in it comes from the plan and its seed: told twice, it is the same to the letter.
 *
 * What it does not tell yet: follow-ups, resumed sandboxes and terminals, changes of the configuration, machines that
 * sleep with their monotonic clock standing still, a disk that answers with read errors.
 */
import type { FrontDesk } from '../../actors/root/front-desk.ts'
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import { checkHostFrame } from '../../protocol/frames.ts'
import type { Random } from '../support/random.ts'
import { type Batch, Disk, textOf } from './disk.ts'
import { CONFIG, HostMachine } from './host.ts'
import { laws } from './laws/all.ts'
import { COMPLAINT, type Crew, ENDLESS, goals } from './laws/goals.ts'
import { LawBroken, type LiveLease, type Request, type Watch } from './laws/law.ts'
import { CALM, diceOf, END, type LeaseState, type Plan, type WorkerPlan } from './plan.ts'
import { type Drive, newDrive } from './store.ts'
import { machine, type Process, Timeline, TooMuch } from './timeline.ts'
import { Trace } from './trace.ts'
import { SimTracker } from './tracker.ts'
import { View } from './view.ts'
import { type Line, newLine, Wire, type WorkerEar } from './wire.ts'
import { SimWorker } from './worker.ts'

/** Far more than the busiest honest seed needs. */
const HAPPENINGS_MAX = 2_000_000
/** Time for restarts, forgotten sockets and the longest backoff, once nothing disturbs. */
const SETTLING = 150_000

export interface Told {
  readonly digest: string
  readonly happenings: number
  readonly trace: Trace
  /** `<fault> × <lease state>` → how often. */
  readonly met: ReadonlyMap<string, number>
  readonly finished: number
  readonly runs: number
}

export class World {
  readonly plan: Plan
  readonly time = new Timeline(HAPPENINGS_MAX)
  readonly disk = new Disk(CONFIG)
  readonly drive: Drive
  readonly view: View
  readonly trace: Trace
  readonly host: HostMachine
  readonly workers = new Map<string, SimWorker>()
  readonly lines = new Map<string, Line>()
  readonly met = new Map<string, number>()
  readonly #watches: readonly Watch[]
  readonly #grantedAt = new Map<string, number>()
  readonly #lastDispatch = new Map<string, number>()
  readonly #declines = new Map<string, number[]>()
  readonly #pulls = new Map<string, string>()
  readonly #tracker: SimTracker
  readonly #wires: Wire[] = []
  /** Told of each lease that comes into another state. */
  onLeaseMoved: (lease: LiveLease) => void = () => {}

  constructor(plan: Plan, keep: number) {
    this.plan = plan
    this.trace = new Trace(keep)
    this.drive = { ...newDrive(), flushMsMax: plan.flushMs }
    this.view = new View(this.time, this.disk)
    this.#watches = laws.map(({ number, sentence, watch }) =>
      watch(this.view, (what, facts = {}) => {
        throw new LawBroken(number, sentence, what, facts, this.time.now)
      }),
    )
    this.#tracker = new SimTracker(this.time, this.dice('tracker'), plan.tickets, (ticketId, state) => {
      this.note(`tracker: ${ticketId} to ${state}`)
      for (const watch of this.#watches) watch.movedTicket?.(ticketId, state)
    })
    this.host = this.#hostMachine()
    for (const worker of plan.workers) this.addWorker(worker)
  }

  dice(concern: string): Random {
    return diceOf(this.plan.seed, concern)
  }

  note(line: string): void {
    this.trace.add(this.time.now, line)
  }

  async tell(inject: (world: World) => void, calm: (world: World) => void): Promise<Told> {
    try {
      this.host.boot()
      inject(this)
      await this.time.until(CALM)
      this.note('calm')
      calm(this)
      await this.time.until(CALM + SETTLING)
      this.#judge()
      await this.time.until(END)
      this.#judge()
    } catch (error) {
      if (!(error instanceof TooMuch)) throw error
      throw new LawBroken(ENDLESS.number, ENDLESS.sentence, error.message, {}, this.time.now)
    }
    const statuses = [...this.disk.runs.values()].map(({ value }) => value.status)
    return {
      digest: this.trace.digest(),
      happenings: this.time.count,
      trace: this.trace,
      met: this.met,
      runs: statuses.length,
      finished: statuses.filter((status) => status === 'completed').length,
    }
  }

  #judge(): void {
    const crew: Crew[] = [...this.workers.values()].map((worker) => ({
      worker: worker.plan.id,
      workerId: worker.workerId,
      isOn: worker.isOn,
      isRegistered: worker.isRegistered,
      concurrency: worker.plan.concurrency,
    }))
    for (const { number, sentence, judge } of goals) {
      const lack = judge(this.view, crew, {
        grantedAt: this.#grantedAt,
        queueReason: (runId) => this.#queueReason(runId),
        lastDispatch: (workerId) => this.#lastDispatch.get(workerId) ?? 0,
        declines: (workerId, since) =>
          (this.#declines.get(workerId) ?? []).filter((at) => at >= since).length,
      })
      if (lack !== undefined) throw new LawBroken(number, sentence, lack, {}, this.time.now)
    }
  }

  /** That a run was interrupted says why it waits again, not what for. */
  #queueReason(runId: string): string | undefined {
    const run = this.host.desk?.run(runId)
    const reason = run?.ok === true ? run.value.queueReason : undefined
    if (reason?.startsWith('interrupted') !== true) return reason
    const placement = this.host.desk?.placement(runId)
    return placement?.ok === true ? placement.value.reason : reason
  }

  /** A fault has happened while these leases were what they were. */
  meet(fault: string, leases: readonly LiveLease[]): void {
    for (const state of new Set(leases.map((lease) => lease.state))) {
      const key = `${fault} × ${state}`
      this.met.set(key, (this.met.get(key) ?? 0) + 1)
    }
  }

  // ---- people ------------------------------------------------------------------------------------------------------

  /** Somebody asks the host for something; the answer, if it ever comes, is shown to the laws. */
  ask(request: Request, run: (desk: FrontDesk) => unknown): void {
    this.host.visit((desk) => {
      const { process } = this.host
      this.note(`asked: ${request.what} ${request.workerId ?? request.runId ?? ''}`)
      for (const watch of this.#watches) watch.asked?.(request)
      void Promise.resolve(run(desk)).then((answer) => {
        if (process?.dead !== false) return
        const { ok, value } = { ok: false, value: undefined, ...Object(answer) }
        this.note(`answered: ${request.what} ${request.workerId ?? request.runId ?? ''} ${ok ? 'yes' : 'no'}`)
        this.guard(() => {
          for (const watch of this.#watches) watch.answered?.(request, ok, value)
        })
      })
    })
  }

  #broken: unknown
  /** Laws that break inside a promise or inside the host must not be swallowed there. */
  guard(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.#broken ??= error
      this.time.at(this.time.now, () => {
        throw this.#broken
      })
    }
  }

  #askForToken(worker: string, typeIn: (token: string) => void): void {
    const ask = () => {
      if (this.host.desk === undefined) return void this.time.in(5_000, ask)
      this.ask({ what: 'token' }, (desk) => {
        const minted = desk.mintPairingToken()
        if (minted.ok) this.time.in(2_000, () => typeIn(minted.value.token))
        else this.time.in(5_000, ask)
        return minted
      })
    }
    this.note(`${worker} needs a token`)
    this.time.in(1_000, ask)
  }

  // ---- workers -----------------------------------------------------------------------------------------------------

  addWorker(plan: WorkerPlan): SimWorker {
    const line = newLine(plan.id, this.plan.latencyMs)
    const random = this.dice(`worker ${plan.id}`)
    const worker = new SimWorker({
      plan,
      machine: machine(plan.id, this.dice(`machine ${plan.id}`)),
      time: this.time,
      random,
      dial: (process, ear) => this.#dial(line, process, ear),
      askForToken: (typeIn) => this.#askForToken(plan.id, typeIn),
      pullOf: (runId) => this.#pullOf(runId),
      watch: {
        stamped: (_worker, frame) => this.view.stampedFrame(frame),
        started: (execution) => {
          this.note(`${plan.id} executes ${execution.runId} under ${execution.leaseId}`)
          this.view.executions.add(execution)
          this.guard(() => this.#watches.forEach((watch) => void watch.started?.(execution)))
        },
        stopped: (execution) => {
          this.note(`${plan.id} stops ${execution.leaseId}`)
          this.view.executions.delete(execution)
        },
        trimmed: (leaseId, upTo) =>
          this.guard(() => this.#watches.forEach((watch) => void watch.trimmed?.(leaseId, upTo))),
        deletedCredential: (_worker, workerId) =>
          this.note(`${plan.id} deletes the credential of ${workerId}`),
        said: (_worker, text) => this.note(`${plan.id} ${text}`),
      },
    })
    this.workers.set(plan.id, worker)
    this.lines.set(plan.id, line)
    if (Number.isFinite(plan.at)) this.time.at(plan.at, () => worker.switchOn())
    return worker
  }

  #pullOf(runId: string): string {
    const known = this.#pulls.get(runId) ?? `https://code.example/o/web/pull/${this.#pulls.size + 1}`
    this.#pulls.set(runId, known)
    return known
  }

  #dial(line: Line, worker: Process, ear: WorkerEar): Wire {
    const wire = new Wire({
      number: this.#wires.length + 1,
      time: this.time,
      line,
      random: this.dice(`wire ${this.#wires.length + 1}`),
      worker,
      ear,
      call: (link) => this.host.call(link),
      watch: {
        hostSends: (one, frame, text) => this.guard(() => this.#hostSends(one, frame, text)),
        hostHears: (one, frame, text) => this.guard(() => this.#hostHears(one, frame, text)),
        workerHears: (one, frame) =>
          this.guard(() => this.#watches.forEach((watch) => void watch.workerHears?.(one, frame))),
        hostEnds: (one) => this.note(`wire ${one.number} of ${one.worker} ends at the host`),
      },
    })
    this.#wires.push(wire)
    return wire
  }

  #hostSends(wire: Wire, frame: HostFrame, text: string): void {
    this.note(`host → ${wire.worker} (${wire.number}) ${text}`)
    const checked = checkHostFrame(frame)
    if (!checked.ok)
      throw new LawBroken('0', 'the host speaks the protocol', checked.error, { text }, this.time.now)
    this.view.hostSends(wire, frame)
    if (frame.type === 'dispatch') this.#lastDispatch.set(this.view.registeredAs(wire) ?? '', this.time.now)
    for (const watch of this.#watches) watch.hostSends?.(wire, frame)
  }

  #hostHears(wire: Wire, frame: WorkerFrame | undefined, text: string): void {
    this.note(`${wire.worker} → host (${wire.number}) ${text}`)
    this.view.hostHears(wire, frame)
    if (frame?.type === 'dispatch-rejected') {
      const workerId = this.view.registeredAs(wire) ?? ''
      this.#declines.set(workerId, [...(this.#declines.get(workerId) ?? []), this.time.now])
    }
    for (const watch of this.#watches) watch.hostHears?.(wire, frame)
  }

  /** Every connection of a host that is no more. */
  dropWires(quiet: boolean): void {
    for (const wire of this.#wires) {
      if (!wire.hostOpen) continue
      if (quiet) wire.break(1, 0.5, undefined, undefined)
      else wire.break(1, 0.2, undefined, 5)
    }
  }

  // ---- the host ----------------------------------------------------------------------------------------------------

  #hostMachine(): HostMachine {
    return new HostMachine({
      time: this.time,
      machine: machine('host', this.dice('machine host')),
      disk: this.disk,
      drive: this.drive,
      random: this.dice('host'),
      trackerFor: (process) => this.#tracker.seenBy(process),
      watch: {
        booted: (process) => {
          this.note(`${process.name} starts`)
          this.view.hostBooted()
          this.#watches.forEach((watch) => void watch.booted?.())
        },
        serving: (process) => {
          this.note(`${process.name} serves`)
          this.guard(() => this.#watches.forEach((watch) => void watch.serving?.()))
        },
        ended: (process, how) => {
          this.note(`${process.name} ends: ${how}`)
          this.dropWires(how === 'power')
        },
        asked: ({ number }) => this.note(`commit ${number} is asked for`),
        landing: (batch) => {
          for (const watch of this.#watches) watch.landing?.(batch)
        },
        landed: (batch) => this.#landed(batch),
        complained: (what, fields) =>
          this.guard(() => {
            const told = { fields: textOfFields(fields) }
            throw new LawBroken(COMPLAINT.number, COMPLAINT.sentence, what, told, this.time.now)
          }),
        said: (level, fields, message) =>
          this.note(`host says (${level}) ${message} ${textOfFields(fields)}`),
      },
    })
  }

  #landed(batch: Batch): void {
    for (const change of batch.changes) this.note(`disk ${batch.number}: ${textOf(change)}`)
    const moved = this.view.landed(batch)
    for (const watch of this.#watches) watch.landed?.(batch)
    for (const lease of moved) {
      if (!this.#grantedAt.has(lease.id)) this.#grantedAt.set(lease.id, this.time.now)
      this.onLeaseMoved(lease)
    }
  }

  /** For those who look for a lease in some state: all of one worker's, or all. */
  leases(workerId?: string): readonly LiveLease[] {
    return workerId === undefined ? this.view.leases : this.view.leasesOn(workerId)
  }

  workerOf(lease: LiveLease): SimWorker | undefined {
    return [...this.workers.values()].find(({ workerId }) => workerId === lease.workerId)
  }
}

export function stateOf(lease: LiveLease): LeaseState | undefined {
  // The view names states as the plan does.
  return lease.state as LeaseState
}

function textOfFields(fields: object): string {
  return JSON.stringify(fields, (_key, value: unknown) =>
    value instanceof Error ? { message: value.message, stack: value.stack } : value,
  )
}
