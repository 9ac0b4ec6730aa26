/**
 * One seed's world: a host, its workers, the lines between them, the tracker, and the people.
 *
 * It joins the parts, lets the plan's faults happen to them, shows everything that happens to the laws, and writes it
 * into the trace. Most of its workers run the product's daemon, the others a script. Everything in it comes from the
 * plan and its seed: told twice, it is the same to the letter.
 *
 * What it does not tell yet: changes of the configuration, machines that sleep with their monotonic clock standing
 * still, a disk that answers with read errors.
 */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import { checkHostFrame, checkWorkerFrame } from '../../protocol/frames.ts'
import type { Random } from '../support/random.ts'
import { SimCodehost } from './codehost.ts'
import { DaemonWorker } from './daemon-worker.ts'
import { type Batch, Disk, textOf } from './disk.ts'
import { CONFIG, HostMachine } from './host.ts'
import { laws } from './laws/all-laws.ts'
import { COMPLAINT, type Crew, ENDLESS, goals } from './laws/goals.ts'
import { LawBroken, type LiveLease, type Request, type Watch } from './laws/law.ts'
import { Terms } from './lease-terms.ts'
import { type Line, newLine, Wire, type WorkerEar } from './network.ts'
import { CALM, diceOf, END, type LeaseState, type Plan, SETTLING, type WorkerPlan } from './plan.ts'
import { ScriptedWorker } from './scripted-worker.ts'
import { type Drive, newDrive } from './store.ts'
import { type Machine, machine, type Process, Timeline, TooMuch } from './timeline.ts'
import { Trace } from './trace.ts'
import { SimTracker } from './tracker.ts'
import type { DaemonWatch, SimWorker } from './worker.ts'
import { FINISHED } from './worker-disk.ts'
import { View } from './world-view.ts'

/** Far more than the busiest honest seed needs. */
const HAPPENINGS_MAX = 2_000_000
/** How often laws look around of their own accord. */
const TICK_MS = 2_000
const LOOK_MS = 20_000
/** What came over a line before that has arrived. */
const CLEAR_MS = 30_000
/** What people ask for about runs that have ended. */
const PERSONAL: ReadonlySet<Request['what']> = new Set(['resume', 'release', 'follow up'])
/** Who has slept is patient for so long. */
const AWAKE_MS = 60_000

export interface Told {
  readonly digest: string
  readonly happenings: number
  readonly trace: Trace
  /** `<fault> × <lease state>` → how often. */
  readonly met: ReadonlyMap<string, number>
  readonly finished: number
  readonly runs: number
  /** What came to pass between people and sandboxes → how often. */
  readonly deeds: ReadonlyMap<string, number>
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
  readonly #finishedAt = new Map<string, number>()
  readonly #terms = new Terms()
  readonly #machines = new Map<string, Machine>()
  readonly #lastDispatch = new Map<string, number>()
  readonly #declines = new Map<string, number[]>()
  readonly codehost: SimCodehost
  readonly deeds = new Map<string, number>()
  readonly #tracker: SimTracker
  readonly #wires: Wire[] = []
  /** Told of each lease that comes into another state. */
  onLeaseMoved: (lease: LiveLease) => void = () => {}
  /** Told of each frame that arrives at the host. */
  onHostHears: (worker: string, frame: WorkerFrame | undefined) => void = () => {}

  constructor(plan: Plan, keep: number) {
    this.plan = plan
    this.trace = new Trace(keep)
    this.drive = { ...newDrive(), flushMsMax: plan.flushMs }
    this.codehost = new SimCodehost(this.time, this.dice('code host'))
    this.view = new View(this.time, this.disk, {
      isClear: (worker) => this.#isClear(worker),
      hostIsAwake: () => this.#hostIsAwake(),
      usedIn: (runId) => this.#usedIn(runId),
      followUpsOf: (runId, followUpId) => this.#followUpsOf(runId, followUpId),
    })
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
      this.#tick()
      this.#look()
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
      deeds: this.deeds,
      runs: statuses.length,
      finished: statuses.filter((status) => status === 'completed').length,
    }
  }

  #tick(): void {
    for (const watch of this.#watches) watch.ticked?.()
    this.time.in(TICK_MS, () => this.#tick())
  }

  #look(): void {
    for (const worker of this.workers.values()) {
      const { overdue } = worker
      for (const watch of this.#watches) watch.overdue?.(worker, overdue)
    }
    this.time.in(LOOK_MS, () => this.#look())
  }

  /** Something came to pass that should, now and then. */
  deed(what: string): void {
    this.deeds.set(what, (this.deeds.get(what) ?? 0) + 1)
  }

  #isClear(worker: string): boolean {
    const line = this.lines.get(worker)
    const found = this.workers.get(worker)
    if (line === undefined || found === undefined || !found.isRegistered) return false
    // A line that is broken may seem to stand for a while yet, to either end.
    if (found.wire?.hostOpen !== true || found.wire.broken) return false
    const ends = [this.host.process, found.process]
    const troubled = [line.silentUpUntil, line.silentDownUntil, line.slowUntil, line.hostileUntil]
    for (const end of ends) troubled.push(end?.pausedUntil ?? Number.POSITIVE_INFINITY)
    return Math.max(...troubled, line.changedAt) + CLEAR_MS < this.time.now
  }

  #hostIsAwake(): boolean {
    const { process, jumpedAt } = this.host
    const sleptAt = Math.max(process?.pausedUntil ?? Number.POSITIVE_INFINITY, jumpedAt)
    return sleptAt + AWAKE_MS < this.time.now
  }

  #usedIn(runId: string): number {
    let used = 0
    for (const worker of this.workers.values()) used += worker.usedIn(runId)
    return used
  }

  #followUpsOf(runId: string, followUpId: string) {
    const url = this.codehost.pullOf(runId)
    return {
      pushes: this.codehost.pushes(url, followUpId),
      summaries: this.codehost.summaries(url, followUpId),
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
        finishedAt: this.#finishedAt,
        queueReason: (runId) => this.#queueReason(runId),
        lastDispatch: (workerId) => this.#lastDispatch.get(workerId) ?? 0,
        declines: (workerId, since) =>
          (this.#declines.get(workerId) ?? []).filter((at) => at >= since).length,
        attachSessions: (workerId) => this.#attachSessions(workerId),
        census: () => this.host.census,
      })
      if (lack !== undefined) throw new LawBroken(number, sentence, lack, {}, this.time.now)
    }
  }

  /** That a run was interrupted says why it waits again, not what for. */
  #queueReason(runId: string): string | undefined {
    const run = this.host.hostApi?.run(runId)
    const reason = run?.ok === true ? run.value.queueReason : undefined
    if (reason?.startsWith('interrupted') !== true) return reason
    const placement = this.host.hostApi?.placement(runId)
    return placement?.ok === true ? placement.value.reason : reason
  }

  #attachSessions(workerId: string): number | undefined {
    const demand = this.host.hostApi?.demand(workerId)
    return demand?.ok === true ? demand.value.worker.attachSessions : undefined
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
  ask(request: Request, run: (hostApi: HostApi) => unknown): void {
    this.host.visit((hostApi) => {
      const { process } = this.host
      this.note(`asked: ${request.what} ${request.workerId ?? request.runId ?? ''}`)
      if (request.what === 'discard') this.view.discardAsked(request.runId ?? '')
      for (const watch of this.#watches) watch.asked?.(request)
      void Promise.resolve(run(hostApi)).then((answer) => {
        if (process?.dead !== false) return
        const { ok, value, refusal } = { ok: false, value: undefined, refusal: {}, ...Object(answer) }
        const verdict = ok ? 'yes' : `no ${JSON.stringify(refusal)}`
        this.note(`answered: ${request.what} ${request.workerId ?? request.runId ?? ''} ${verdict}`)
        if (PERSONAL.has(request.what)) this.deed(`${request.what} ${ok ? 'allowed' : 'refused'}`)
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
      if (this.host.hostApi === undefined) return void this.time.in(5_000, ask)
      this.ask({ what: 'token' }, (hostApi) => {
        const minted = hostApi.mintPairingToken()
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
    const own = machine(plan.id, this.dice(`machine ${plan.id}`))
    const parts = {
      plan,
      machine: own,
      time: this.time,
      random: this.dice(`worker ${plan.id}`),
      dial: (process: Process, ear: WorkerEar, rogue: boolean) => this.#dial(line, process, ear, rogue),
      askForToken: (typeIn: (token: string) => void) => this.#askForToken(plan.id, typeIn),
      codehost: this.codehost,
      sessionOf: (runId: string) => this.disk.run(runId)?.agentSessionId,
      stopAt: (leaseId: string) => this.#terms.until(leaseId),
      watch: this.#workerWatch(plan.id),
    }
    const worker = plan.is === 'daemon' ? new DaemonWorker(parts) : new ScriptedWorker(parts)
    this.workers.set(plan.id, worker)
    this.lines.set(plan.id, line)
    this.#machines.set(plan.id, own)
    if (Number.isFinite(plan.at)) this.time.at(plan.at, () => worker.switchOn())
    return worker
  }

  /** A fault has happened to a worker. */
  struck(worker: SimWorker, fault: string): void {
    for (const watch of this.#watches) watch.struck?.(worker, fault)
  }

  #workerWatch(id: string): DaemonWatch {
    const all = (show: (watch: Watch) => void) => this.guard(() => this.#watches.forEach(show))
    return {
      stamped: (_worker, frame) => this.view.stampedFrame(frame),
      started: (execution) => {
        this.note(`${id} executes ${execution.runId} under ${execution.leaseId}`)
        this.view.executions.add(execution)
        all((watch) => watch.started?.(execution))
      },
      stopped: (execution) => {
        this.note(`${id} stops ${execution.leaseId}`)
        this.view.executions.delete(execution)
      },
      trimmed: (leaseId, upTo) => all((watch) => watch.trimmed?.(leaseId, upTo)),
      deletedCredential: (_worker, workerId) => this.note(`${id} deletes the credential of ${workerId}`),
      said: (_worker, text) => {
        this.note(`${id} ${text}`)
        all((watch) => watch.logged?.(text))
      },
      booted: (_worker, disk) => {
        this.note(`${id} starts`)
        this.view.daemonBooted(id, disk)
      },
      crashed: (worker) => {
        this.note(`${id} crashes`)
        all((watch) => watch.crashed?.(worker))
      },
      ended: (worker, end) => {
        this.note(`${id} ends: ${end.is} (${end.detail})`)
        all((watch) => watch.daemonEnds?.(worker, end))
      },
      sends: (worker, wire, frame, text) => {
        this.#checkFrame(frame, text)
        this.#terms.sent(wire, frame, this.time.now)
        all((watch) => watch.workerSends?.(worker, wire, frame, text))
      },
      spooling: (worker, batch) => all((watch) => watch.spooling?.(worker, batch)),
      spooled: (worker, batch) => {
        this.#spooled(id, batch)
        all((watch) => watch.spooled?.(worker, batch))
      },
      told: (execution, told) => all((watch) => watch.told?.(execution, told)),
      ordered: (execution, order) => {
        this.note(`${id} is to ${order.how} ${execution.leaseId}: ${order.reason}`)
        all((watch) => watch.ordered?.(execution, order))
      },
      published: (execution) => {
        this.note(`${id} publishes ${execution.runId} under ${execution.leaseId}`)
        all((watch) => watch.published?.(execution))
      },
      followedUp: (execution, followUpId) => {
        this.note(`${id} does what ${followUpId} is about, under ${execution.leaseId}`)
        this.deed('steps of follow ups')
        all((watch) => watch.followedUp?.(execution, followUpId))
      },
      boots: (boot) => {
        this.note(`${id} boots the sandbox of ${boot.runId}`)
        this.view.boots.add(boot)
        all((watch) => watch.boots?.(boot))
      },
      moved: (boot) => {
        this.note(`${id} has the sandbox of ${boot.runId} ${boot.stage}`)
        if (boot.stage === 'booted') this.deed('sandboxes booted')
        all((watch) => watch.bootMoved?.(boot))
      },
      gone: (boot) => {
        this.note(`nothing is left of the boot of ${boot.runId} on ${id}`)
        this.view.boots.delete(boot)
        all((watch) => watch.bootGone?.(boot))
      },
      reclaims: (worker, isClaimed) => all((watch) => watch.reclaims?.(worker, isClaimed)),
      tookBack: (worker, runId) => {
        this.note(`${id} takes back the sandbox of ${runId}`)
        this.deed('sandboxes taken back')
        all((watch) => watch.tookBack?.(worker, runId))
      },
      lineDown: (worker) => all((watch) => watch.lineDown?.(worker)),
      discarded: (worker, runId) => {
        this.note(`${id} discards the sandbox of ${runId}`)
        all((watch) => watch.sandboxDiscarded?.(worker, runId))
      },
      complained: (_worker, what, fields) =>
        this.guard(() => {
          const told = { worker: id, fields: textOfFields(fields) }
          throw new LawBroken(COMPLAINT.number, COMPLAINT.sentence, what, told, this.time.now)
        }),
    }
  }

  #checkFrame(frame: WorkerFrame, text: string): void {
    const checked = checkWorkerFrame(frame)
    if (checked.ok) return
    this.guard(() => {
      throw new LawBroken('0', 'a worker speaks the protocol', checked.error, { text }, this.time.now)
    })
  }

  #spooled(id: string, batch: Batch): void {
    this.view.spooled(batch)
    for (const change of batch.changes) {
      this.note(`${id} disk ${batch.number}: ${textOf(change)}`)
      if (change.is === 'snapshot' && change.row?.value.s === FINISHED)
        this.#finishedAt.set(change.key, this.#finishedAt.get(change.key) ?? this.time.now)
    }
  }

  #dial(line: Line, worker: Process, ear: WorkerEar, rogue: boolean): Wire {
    const wire = new Wire({
      number: this.#wires.length + 1,
      time: this.time,
      line,
      random: this.dice(`wire ${this.#wires.length + 1}`),
      worker,
      ear,
      rogue,
      call: (link) => this.host.call(link),
      watch: {
        hostSends: (one, frame, text) => this.guard(() => this.#hostSends(one, frame, text)),
        hostHears: (one, frame, text) => this.guard(() => this.#hostHears(one, frame, text)),
        workerHears: (one, frame) => {
          this.#terms.heard(one, frame, this.time.now, this.#machines.get(line.worker)?.rate ?? 1)
          this.guard(() => this.#watches.forEach((watch) => void watch.workerHears?.(one, frame)))
        },
        hostEnds: (one) => {
          line.changedAt = this.time.now
          this.note(`wire ${one.number} of ${one.worker} ends at the host`)
        },
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
    if (frame.type === 'registered') this.#changed(wire.worker)
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
    this.onHostHears(wire.worker, frame)
  }

  #changed(worker: string): void {
    const line = this.lines.get(worker)
    if (line !== undefined) line.changedAt = this.time.now
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
      pullsFor: (process) => this.codehost.seenBy(process),
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
          for (const seat of this.view.seats) seat.close()
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
        said: (level, fields, message) => {
          const text = `host says (${level}) ${message} ${textOfFields(fields)}`
          this.note(text)
          this.guard(() => this.#watches.forEach((watch) => void watch.logged?.(text)))
        },
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
