/**
 * World is the world of one seed: a host, its workers, their connections, the tracker, the code host and the
 * people.
 *
 * World connects the parts, applies the plan's faults, shows all events to the laws and records them in the trace.
 * Everything follows from the plan and its seed, so a second run gives the same trace.
 */

import type { HostApi } from '../../actors/api/host-api.ts'
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import { checkHostFrame, checkWorkerFrame } from '../../protocol/frames.ts'
import type { InspectFrame } from '../../protocol/inspection.ts'
import type { Random } from '../support/random.ts'
import { DaemonWorker } from './daemon-worker.ts'
import { isDamaging } from './disk-damage.ts'
import { ForeignHost } from './foreign-host.ts'
import { CONFIG_TEXT, HostMachine, JOINING_SEED } from './host-machine.ts'
import { JobController } from './job-controller.ts'
import { laws } from './laws/all-laws.ts'
import { goals, type JudgedWorker, NO_BUG_LAW, STEP_LIMIT_LAW } from './laws/goals.ts'
import {
  type ApiRequest,
  isTerminal,
  type LawObserver,
  LawViolation,
  type LiveLease,
  ObserverList,
  type ObserverOf,
} from './laws/law.ts'
import { LeaseTerms } from './lease-terms.ts'
import { type LeaseState, type Plan, randomFor, SETTLING_MS, type WorkerPlan } from './plan.ts'
import { shortestGraceMs } from './settings-plan.ts'
import { SimCodehost } from './sim-codehost.ts'
import { createLink, type NetworkLink, SimConnection, type SimConnectionListener } from './sim-connection.ts'
import { type DiskBatch, describeChange, SimDisk } from './sim-disk.ts'
import { createDrive, type Drive } from './sim-store.ts'
import { SimTracker } from './sim-tracker.ts'
import type { DaemonObserver, SimWorker } from './sim-worker.ts'
import { SpecWorker } from './spec-worker.ts'
import { createMachine, type Process, type SimMachine, StepLimitExceeded, Timeline } from './timeline.ts'
import { Trace } from './trace.ts'
import { FINISHED_STATE } from './worker-disk.ts'
import { WorldView } from './world-view.ts'

/** Far more than the busiest correct seed needs. */
const STEPS_MAX = 2_000_000
/** Interval of the laws' `onTick`. */
const LAW_TICK_MS = 2_000
const RECLAIMABLE_CHECK_MS = 20_000
const REST_CHECK_MS = 60_000
/** Longer than every goal waits for what follows from the end of a run. */
const REST_MS = 5.5 * 60_000
/** Frames sent longer ago have arrived. */
const CLEAR_MS = 30_000
/** Operations of people on ended runs that are counted by their result. */
const COUNTED_OPERATIONS: ReadonlySet<ApiRequest['operation']> = new Set([
  'resume',
  'release',
  'follow up',
  'change settings',
])
/** How long the host grants extra time after a pause. */
const AWAKE_MS = 60_000
/** Clocks that differ by less confirm each other. */
const CLOCKS_DIFFER_MS = 3_600_000

export interface SeedResult {
  readonly digest: string
  readonly steps: number
  readonly trace: Trace
  /** `<fault> × <lease state>` → how often. */
  readonly encounters: ReadonlyMap<string, number>
  readonly completed: number
  readonly runs: number
  /** Outcome of people and sandboxes → how often. */
  readonly outcomes: ReadonlyMap<string, number>
}

export class World {
  readonly plan: Plan
  readonly time = new Timeline(STEPS_MAX)
  readonly disk = new SimDisk(CONFIG_TEXT)
  readonly drive: Drive
  readonly view: WorldView
  readonly trace: Trace
  readonly host: HostMachine
  readonly workers = new Map<string, SimWorker>()
  readonly links = new Map<string, NetworkLink>()
  readonly encounters = new Map<string, number>()
  readonly #onInspected: ((frame: InspectFrame) => void) | undefined
  readonly #observers: ObserverList
  readonly #controller: JobController | undefined
  readonly #grantedAt = new Map<string, number>()
  readonly #finishedAt = new Map<string, number>()
  readonly #endedAt = new Map<string, number>()
  readonly #runWrittenAt = new Map<string, number>()
  readonly #runCreatedAt = new Map<string, number>()
  /** When a run or a ticket last changed. */
  #changedAt = 0
  readonly #leaseTerms = new LeaseTerms()
  readonly #machines = new Map<string, SimMachine>()
  readonly #lastDispatch = new Map<string, number>()
  readonly #declines = new Map<string, number[]>()
  readonly codehost: SimCodehost
  readonly outcomes = new Map<string, number>()
  readonly foreignHost: ForeignHost
  readonly #tracker: SimTracker
  readonly #connections: SimConnection[] = []
  /** Called for each lease that enters another state. */
  onLeaseStateChanged: (lease: LiveLease) => void = () => {}
  /** Called when a daemon begins to publish what an earlier execution has left. */
  onPublishingAgain: (worker: SimWorker | undefined) => void = () => {}
  /** Called when a daemon is about to report the costs of an ended lease for the first time. */
  onSettling: (worker: string) => void = () => {}
  /** Called when a daemon has stored a report, or how far the host has acknowledged the reports of a lease. */
  onReportStored: (worker: string) => void = () => {}
  /** Called for each frame that arrives at the host. */
  onHostReceives: (worker: string, frame: WorkerFrame | undefined) => void = () => {}

  constructor(plan: Plan, keep: number, onInspected?: (frame: InspectFrame) => void) {
    this.plan = plan
    this.#onInspected = onInspected
    this.trace = new Trace(keep)
    this.drive = { ...createDrive(), flushMsMax: plan.flushMs }
    this.foreignHost = new ForeignHost(this.time, () => this.countOutcome('refused by a foreign host'))
    this.codehost = new SimCodehost(this.time, this.randomFor('code host'), plan.refusals)
    this.view = new WorldView(this.time, this.disk, {
      isLinkSteady: (worker) => this.#isLinkSteady(worker),
      isHostAwake: () => this.#isHostAwake(),
      isHostDiskWell: () => {
        const { full, broken, flushMsMax } = this.drive
        return !full && !broken && flushMsMax === plan.flushMs
      },
      graceMsMin: shortestGraceMs(plan.changes),
      liveConfig: () => this.host.hostApi?.config(),
      unnamedDamage: () => this.host.unnamedDamage(),
      hostNow: () => this.host.wallNow,
      sharedClockErrorMs: () => this.#sharedClockErrorMs(),
      countUsageOf: (runId) => this.#countUsageOf(runId),
      tickets: () => this.#tracker.facts(),
      runOfPull: (url) => this.codehost.runOf(url),
      wasPullIn: (url, state) => this.codehost.wasIn(url, state),
      countFollowUpSteps: (runId, followUpId) => this.#countFollowUpSteps(runId, followUpId),
    })
    this.#controller = plan.controller && new JobController(this, plan.controller)
    const observers = laws.map(({ number, sentence, observe }) =>
      observe(this.view, (what, facts = {}) => {
        throw new LawViolation(number, sentence, what, facts, this.time.now)
      }),
    )
    this.#observers = new ObserverList(
      this.#controller === undefined ? observers : [...observers, this.#controller],
    )
    this.#tracker = new SimTracker(this.time, this.randomFor('tracker'), plan.tickets, {
      onTicketMoved: (ticketId, state) => {
        this.note(`tracker: ${ticketId} to ${state}`)
        this.#changedAt = this.time.now
        for (const observer of this.#observers.with('onTicketMoved')) observer.onTicketMoved(ticketId, state)
      },
      onMoveSent: (ticketId, host) =>
        this.rethrowLater(() => {
          for (const observer of this.#observers.with('onHostActs'))
            observer.onHostActs(host, `moves ${ticketId}`)
        }),
    })
    this.host = this.#createHostMachine()
    for (const worker of plan.workers) this.addWorker(worker)
  }

  get #sleeps(): boolean {
    return (this.plan.sleeps?.length ?? 0) > 0
  }

  randomFor(concern: string): Random {
    return randomFor(this.plan.seed, concern)
  }

  note(text: string): void {
    this.trace.add(this.time.now, text)
  }

  async run(schedule: (world: World) => void, endFaults: (world: World) => void): Promise<SeedResult> {
    try {
      this.host.boot()
      schedule(this)
      this.#controller?.start()
      this.#tick()
      this.#checkReclaimable()
      await this.time.runUntil(this.plan.faultsEndMs)
      this.note('faults end')
      endFaults(this)
      await this.time.runUntil(this.plan.faultsEndMs + SETTLING_MS)
      this.#judgeGoals()
      while (this.time.now < this.plan.endMs && !this.#isAtRest())
        await this.time.runUntil(Math.min(this.time.now + REST_CHECK_MS, this.plan.endMs))
      this.#judgeGoals()
      this.#controller?.judge()
    } catch (error) {
      if (!(error instanceof StepLimitExceeded)) throw error
      throw new LawViolation(STEP_LIMIT_LAW.number, STEP_LIMIT_LAW.sentence, error.message, {}, this.time.now)
    }
    const statuses = [...this.disk.runs.values()].map(({ value }) => value.status)
    return {
      digest: this.trace.digest(),
      steps: this.time.stepCount,
      trace: this.trace,
      encounters: this.encounters,
      outcomes: this.outcomes,
      runs: statuses.length,
      completed: statuses.filter((status) => status === 'completed').length,
    }
  }

  /** Whether every run has ended, and all that follows from it has happened. */
  #isAtRest(): boolean {
    const { visits } = this.plan
    const lastVisitAt = Math.max(0, ...visits.flatMap(({ actions }) => actions.map(({ at }) => at)))
    if (Math.max(this.#changedAt, lastVisitAt) + REST_MS > this.time.now) return false
    return [...this.disk.runs.values()].every(({ value }) => isTerminal(value))
  }

  #tick(): void {
    for (const observer of this.#observers.with('onTick')) observer.onTick()
    this.time.in(LAW_TICK_MS, () => this.#tick())
  }

  #checkReclaimable(): void {
    for (const worker of this.workers.values()) {
      const { reclaimableRunIds } = worker
      for (const observer of this.#observers.with('onReclaimableChecked'))
        observer.onReclaimableChecked(worker, reclaimableRunIds)
    }
    this.time.in(RECLAIMABLE_CHECK_MS, () => this.#checkReclaimable())
  }

  /** Counts an outcome that must happen now and then. */
  countOutcome(what: string): void {
    this.outcomes.set(what, (this.outcomes.get(what) ?? 0) + 1)
  }

  #isLinkSteady(worker: string): boolean {
    const link = this.links.get(worker)
    const found = this.workers.get(worker)
    if (link === undefined || found === undefined || !found.isRegistered) return false
    // A broken connection may look open to either end for a while.
    if (found.connection?.hostOpen !== true || found.connection.broken) return false
    const ends = [this.host.process, found.process]
    const troubled = [link.silentToHostUntil, link.silentToWorkerUntil, link.slowUntil, link.hostileUntil]
    for (const end of ends) troubled.push(end?.pausedUntil ?? Number.POSITIVE_INFINITY)
    return Math.max(...troubled, link.changedAt) + CLEAR_MS < this.time.now
  }

  #isHostAwake(): boolean {
    const { process, wallClockJumpedAt: jumpedAt } = this.host
    const sleptAt = Math.max(process?.pausedUntil ?? Number.POSITIVE_INFINITY, jumpedAt)
    return sleptAt + AWAKE_MS < this.time.now
  }

  #sharedClockErrorMs(): number {
    const { wallOffset } = this.host
    const isShared = [...this.#machines.values()].some(
      (witness) => Math.abs(witness.wallOffset - wallOffset) < CLOCKS_DIFFER_MS,
    )
    return isShared ? wallOffset : 0
  }

  #countUsageOf(runId: string): number {
    let used = 0
    for (const worker of this.workers.values()) used += worker.countUsageOf(runId)
    return used
  }

  #countFollowUpSteps(runId: string, followUpId: string) {
    const url = this.codehost.findPull(runId) ?? ''
    return {
      pushes: this.codehost.countPushes(url, followUpId),
      summaries: this.codehost.countSummaries(url, followUpId),
    }
  }

  #judgeGoals(): void {
    const judgedWorkers: JudgedWorker[] = [...this.workers.values()].map((worker) => ({
      worker: worker.plan.id,
      workerId: worker.workerId,
      isOn: worker.isOn,
      isRegistered: worker.isRegistered,
      isEnding: worker.isEnding,
      linkChangedAt: this.links.get(worker.plan.id)?.changedAt ?? 0,
      spendings: worker.spendings,
      concurrency: worker.plan.concurrency,
    }))
    for (const { number, sentence, judge } of goals) {
      const problem = judge(this.view, judgedWorkers, {
        times: this.plan,
        grantedAt: this.#grantedAt,
        finishedAt: this.#finishedAt,
        endedAt: this.#endedAt,
        runWrittenAt: this.#runWrittenAt,
        runCreatedAt: this.#runCreatedAt,
        queueReason: (runId) => this.#queueReason(runId),
        lastDispatchAt: (workerId) => this.#lastDispatch.get(workerId) ?? 0,
        countDeclines: (workerId, withinMs) => {
          const since = this.time.now - withinMs - this.host.sleptMs
          return (this.#declines.get(workerId) ?? []).filter((at) => at >= since).length
        },
        attachSessions: (workerId) => this.#attachSessions(workerId),
        inMemoryCounts: () => this.host.inMemoryCounts,
        closedGates: (runId) => this.#closedGates(runId),
      })
      if (problem !== undefined) throw new LawViolation(number, sentence, problem, {}, this.time.now)
    }
  }

  /** For an interrupted run the queue reason says why it is queued again; the placement says what it waits for. */
  #queueReason(runId: string): string | undefined {
    const run = this.host.hostApi?.run(runId)
    const reason = run?.ok === true ? run.value.queueReason : undefined
    if (reason?.startsWith('interrupted') !== true) return reason
    const placement = this.host.hostApi?.placement(runId)
    return placement?.ok === true ? placement.value.reason : reason
  }

  #closedGates(runId: string): readonly string[] | undefined {
    const explained = this.host.hostApi?.explainRun(runId)
    if (explained?.ok !== true || explained.value.run?.status !== 'queued') return undefined
    return explained.value.gates.filter(({ status }) => status !== 'pass').map(({ id }) => id)
  }

  #attachSessions(workerId: string): number | undefined {
    const demand = this.host.hostApi?.demand(workerId)
    return demand?.ok === true ? demand.value.worker?.attachSessions : undefined
  }

  /** Counts that a fault happened while leases were in these states. */
  countEncounter(fault: string, leases: readonly LiveLease[]): void {
    for (const state of new Set(leases.map((lease) => lease.state))) {
      const key = `${fault} × ${state}`
      this.encounters.set(key, (this.encounters.get(key) ?? 0) + 1)
    }
  }

  // ---- people ------------------------------------------------------------------------------------------------------

  /** Sends a request to the host and shows the answer, if one comes, to the laws. */
  callHost(request: ApiRequest, run: (hostApi: HostApi) => unknown): void {
    this.host.callApi((hostApi) => {
      const { process } = this.host
      this.note(`request: ${request.operation} ${request.workerId ?? request.runId ?? ''}`)
      if (request.operation === 'discard') this.view.onDiscardRequested(request.runId ?? '')
      for (const observer of this.#observers.with('onRequest')) observer.onRequest(request)
      void Promise.resolve(run(hostApi)).then((answer) => {
        if (process?.dead !== false) return
        const { ok, value, refusal } = { ok: false, value: undefined, refusal: {}, ...Object(answer) }
        const verdict = ok ? 'yes' : `no ${JSON.stringify(refusal)}`
        this.note(`response: ${request.operation} ${request.workerId ?? request.runId ?? ''} ${verdict}`)
        if (COUNTED_OPERATIONS.has(request.operation))
          this.countOutcome(`${request.operation} ${ok ? 'allowed' : 'refused'}`)
        this.rethrowLater(() => {
          for (const observer of this.#observers.with('onResponse')) observer.onResponse(request, ok, value)
        })
      })
    })
  }

  #joinKey: { readonly id: string; readonly key: string } | undefined
  #violation: unknown
  /** Rethrows a violation outside the promise or host code that would swallow it. */
  rethrowLater(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.#violation ??= error
      this.time.at(this.time.now, () => {
        throw this.#violation
      })
    }
  }

  /** The key of all machines, in the seeds where they have one. */
  get joinKey(): { readonly id: string } | undefined {
    return this.#joinKey
  }

  /** In some seeds a person gives every machine the same join key. */
  #requestJoinKey(worker: string, typeIn: (key: string) => void): void {
    const joinKey = this.#joinKey
    if (joinKey !== undefined) return void this.time.in(1_000, () => typeIn(joinKey.key))
    const again = () => this.#requestJoinKey(worker, typeIn)
    const { hostApi } = this.host
    if (hostApi === undefined) return void this.time.in(5_000, again)
    this.note(`${worker} asks for a join key`)
    // In half of these seeds, a worker that has ended finds its seat taken when it comes back.
    const seats = this.plan.seed % 16 === JOINING_SEED ? this.workers.size : Math.ceil(this.workers.size / 2)
    void hostApi.createJoinKey({ name: 'all', maxWorkers: seats, ephemeral: true }).then((created) => {
      if (created.ok) this.#joinKey ??= created.value
    })
    this.time.in(5_000, again)
  }

  #requestToken(worker: string, typeIn: (token: string) => void): void {
    if (this.plan.seed % 8 === JOINING_SEED) {
      this.#requestJoinKey(worker, typeIn)
      return
    }
    const ask = () => {
      if (this.host.hostApi === undefined) return void this.time.in(5_000, ask)
      this.callHost({ operation: 'token' }, (hostApi) => {
        const minted = hostApi.mintPairingToken()
        if (minted.ok) this.time.in(2_000, () => typeIn(minted.value.token))
        else this.time.in(5_000, ask)
        return minted
      })
    }
    this.note(`${worker} requests a pairing token`)
    this.time.in(1_000, ask)
  }

  // ---- workers -----------------------------------------------------------------------------------------------------

  addWorker(plan: WorkerPlan): SimWorker {
    const link = createLink(plan.id, this.plan.latencyMs, plan.addsKeys)
    const ownMachine = createMachine(plan.id, this.randomFor(`machine ${plan.id}`), this.#sleeps)
    const options = {
      plan,
      machine: ownMachine,
      time: this.time,
      random: this.randomFor(`worker ${plan.id}`),
      dial: (process: Process, listener: SimConnectionListener, isImpostor: boolean) =>
        this.#dial(link, process, listener, isImpostor),
      requestToken: (typeIn: (token: string) => void) => this.#requestToken(plan.id, typeIn),
      codehost: this.codehost,
      damage: isDamaging(this.plan.seed) ? this.randomFor(`damage ${plan.id}`) : undefined,
      sessionOf: (runId: string) => this.disk.run(runId)?.agentSessionId,
      stopAt: (leaseId: string) => this.#leaseTerms.endOf(leaseId),
      observer: this.#workerObserver(plan.id),
    }
    const worker = plan.implementation === 'daemon' ? new DaemonWorker(options) : new SpecWorker(options)
    this.workers.set(plan.id, worker)
    this.links.set(plan.id, link)
    this.#machines.set(plan.id, ownMachine)
    if (Number.isFinite(plan.at)) this.time.at(plan.at, () => worker.switchOn())
    return worker
  }

  /** Shows the laws that a fault hits a worker. */
  reportFault(worker: SimWorker, fault: string): void {
    for (const observer of this.#observers.with('onFault')) observer.onFault(worker, fault)
  }

  #workerObserver(id: string): DaemonObserver {
    const all = <Name extends keyof LawObserver>(name: Name, show: (observer: ObserverOf<Name>) => void) =>
      this.rethrowLater(() => this.#observers.with(name).forEach(show))
    return {
      onFrameNumbered: (_worker, frame) => this.view.recordFrame(frame),
      onExecutionStarted: (execution) => {
        this.note(`${id} executes ${execution.runId} under ${execution.leaseId}`)
        this.view.executions.add(execution)
        if ('publishesOnly' in execution && execution.publishesOnly === true) this.#onPublishingAgain(id)
        all('onExecutionStarted', (observer) => observer.onExecutionStarted(execution))
      },
      onExecutionStopped: (execution) => {
        this.note(`${id} stops ${execution.leaseId}`)
        this.view.executions.delete(execution)
      },
      onOutboxTrimmed: (leaseId, upTo) =>
        all('onOutboxTrimmed', (observer) => observer.onOutboxTrimmed(leaseId, upTo)),
      onCredentialDeleted: (_worker, workerId) => {
        this.note(`${id} deletes the credential of ${workerId}`)
        all('onCredentialDeleted', (observer) => observer.onCredentialDeleted(workerId))
      },
      onLog: (_worker, text) => {
        this.note(`${id} ${text}`)
        all('onLog', (observer) => observer.onLog(text))
      },
      onDaemonStarted: (_worker, disk) => {
        this.note(`${id} starts`)
        this.view.onDaemonStarted(id, disk)
      },
      onRowsDamaged: (worker, workerDisk, rows) => {
        for (const row of rows) {
          this.note(`${row.collection} ${row.key} on ${id} is damaged`)
          this.countOutcome(`damaged ${row.collection}`)
          this.view.lostRows.add(workerDisk, row)
        }
        all('onRowsDamaged', (observer) => observer.onRowsDamaged(worker, rows))
      },
      onDaemonCrashed: (worker) => {
        this.note(`${id} crashes`)
        all('onDaemonCrashed', (observer) => observer.onDaemonCrashed(worker))
      },
      onDaemonEnded: (worker, end) => {
        this.note(`${id} ends: ${end.is} (${end.detail})`)
        all('onDaemonEnded', (observer) => observer.onDaemonEnded(worker, end))
      },
      onSend: (worker, connection, frame, text) => {
        this.#checkFrame(frame, text)
        all('onWorkerSends', (observer) => observer.onWorkerSends(worker, connection, frame, text))
      },
      onBeforeCommit: (worker, batch) =>
        all('onBeforeWorkerCommit', (observer) => observer.onBeforeWorkerCommit(worker, batch)),
      onCommitted: (worker, batch) => {
        this.#onWorkerCommitted(id, batch)
        all('onWorkerCommitted', (observer) => observer.onWorkerCommitted(worker, batch))
      },
      onReport: (execution, facts) => all('onReport', (observer) => observer.onReport(execution, facts)),
      onStopRequested: (execution, order) => {
        this.note(`${id} is asked to ${order.how} ${execution.leaseId}: ${order.reason}`)
        all('onStopRequested', (observer) => observer.onStopRequested(execution, order))
      },
      onAgentStarted: (execution) => {
        this.note(`${id} asks the agent of ${execution.runId} under ${execution.leaseId}`)
        all('onAgentStarted', (observer) => observer.onAgentStarted(execution))
      },
      onPublished: (execution) => {
        this.note(`${id} publishes ${execution.runId} under ${execution.leaseId}`)
        all('onPublished', (observer) => observer.onPublished(execution))
      },
      onFollowUpStep: (execution, followUpId) => {
        this.note(`${id} performs a step of ${followUpId} under ${execution.leaseId}`)
        this.countOutcome('follow up steps')
        all('onFollowUpStep', (observer) => observer.onFollowUpStep(execution, followUpId))
      },
      onBootStarted: (boot) => {
        this.note(`${id} boots the sandbox of ${boot.runId}`)
        this.view.boots.add(boot)
        all('onBootStarted', (observer) => observer.onBootStarted(boot))
      },
      onBootStageChanged: (boot) => {
        this.note(`${id} has the sandbox of ${boot.runId} ${boot.stage}`)
        if (boot.stage === 'booted') this.countOutcome('sandboxes booted')
        all('onBootStageChanged', (observer) => observer.onBootStageChanged(boot))
      },
      onBootGone: (boot) => {
        this.note(`the boot of ${boot.runId} on ${id} is gone`)
        this.view.boots.delete(boot)
        all('onBootGone', (observer) => observer.onBootGone(boot))
      },
      onReclaim: (worker, isClaimed) => all('onReclaim', (observer) => observer.onReclaim(worker, isClaimed)),
      onSandboxReclaimed: (worker, runId) => {
        this.note(`${id} reclaims the sandbox of ${runId}`)
        this.countOutcome('sandboxes reclaimed')
        all('onSandboxReclaimed', (observer) => observer.onSandboxReclaimed(worker, runId))
      },
      onDisconnected: (worker) => all('onDisconnected', (observer) => observer.onDisconnected(worker)),
      onSandboxDiscarded: (worker, runId) => {
        this.note(`${id} discards the sandbox of ${runId}`)
        all('onSandboxDiscarded', (observer) => observer.onSandboxDiscarded(worker, runId))
      },
      onBugReported: (_worker, what, fields) =>
        this.rethrowLater(() => {
          const facts = { worker: id, fields: jsonOf(fields) }
          throw new LawViolation(NO_BUG_LAW.number, NO_BUG_LAW.sentence, what, facts, this.time.now)
        }),
    }
  }

  #onPublishingAgain(worker: string): void {
    this.countOutcome('published again')
    this.onPublishingAgain(this.workers.get(worker))
  }

  #checkFrame(frame: WorkerFrame, text: string): void {
    const checked = checkWorkerFrame(frame)
    if (checked.ok) return
    this.rethrowLater(() => {
      throw new LawViolation('0', 'a worker sends valid frames', checked.error, { text }, this.time.now)
    })
  }

  #onWorkerCommitted(id: string, batch: DiskBatch): void {
    this.view.onWorkerCommitted(batch)
    for (const change of batch.changes) {
      this.note(`${id} disk ${batch.number}: ${describeChange(change)}`)
      if (change.is === 'key-value' && change.row !== null) {
        if (change.collection === 'settlement') this.onSettling(id)
        if (change.collection === 'frame' || change.collection === 'outbox') this.onReportStored(id)
      }
      if (change.is === 'snapshot' && change.row?.value.s === FINISHED_STATE)
        this.#finishedAt.set(change.key, this.#finishedAt.get(change.key) ?? this.time.now)
    }
  }

  #dial(
    link: NetworkLink,
    worker: Process,
    listener: SimConnectionListener,
    isImpostor: boolean,
  ): SimConnection {
    const connection = new SimConnection({
      number: this.#connections.length + 1,
      time: this.time,
      link,
      random: this.randomFor(`wire ${this.#connections.length + 1}`),
      worker,
      listener,
      isImpostor,
      accept: (link) => this.host.connectWorker(link) ?? this.foreignHost.connectWorker(link),
      observer: {
        // A forged heartbeat counts, too: the host answers it, and the worker cannot tell the answer from others.
        onWorkerSends: (each, frame) => this.#leaseTerms.onWorkerSends(each, frame, this.time.now),
        onHostSends: (each, frame, text) => this.rethrowLater(() => this.#onHostSends(each, frame, text)),
        onHostReceives: (each, frame, text) =>
          this.rethrowLater(() => this.#onHostReceives(each, frame, text)),
        onWorkerReceives: (each, frame) => {
          this.#leaseTerms.onWorkerReceives(
            each,
            frame,
            this.time.now,
            this.#machines.get(link.worker)?.rate ?? 1,
          )
          this.rethrowLater(() =>
            this.#observers
              .with('onWorkerReceives')
              .forEach((observer) => void observer.onWorkerReceives(each, frame)),
          )
        },
        onHostClosed: (each) => {
          link.changedAt = this.time.now
          this.note(`wire ${each.number} of ${each.worker} ends at the host`)
        },
      },
    })
    this.#connections.push(connection)
    return connection
  }

  #onHostSends(connection: SimConnection, frame: HostFrame, text: string): void {
    this.note(`host → ${connection.worker} (${connection.number}) ${text}`)
    const checked = checkHostFrame(frame)
    if (!checked.ok)
      throw new LawViolation('0', 'the host sends valid frames', checked.error, { text }, this.time.now)
    this.view.onHostSends(connection, frame)
    if (frame.type === 'registered') this.#noteLinkChange(connection.worker)
    if (frame.type === 'dispatch')
      this.#lastDispatch.set(this.view.registeredAs(connection) ?? '', this.time.now)
    for (const observer of this.#observers.with('onHostSends')) observer.onHostSends(connection, frame)
  }

  #onHostReceives(connection: SimConnection, frame: WorkerFrame | undefined, text: string): void {
    this.note(`${connection.worker} → host (${connection.number}) ${text}`)
    this.view.onHostReceives(connection, frame)
    if (frame?.type === 'dispatch-rejected') {
      const workerId = this.view.registeredAs(connection) ?? ''
      this.#declines.set(workerId, [...(this.#declines.get(workerId) ?? []), this.time.now])
    }
    for (const observer of this.#observers.with('onHostReceives')) observer.onHostReceives(connection, frame)
    this.onHostReceives(connection.worker, frame)
  }

  #noteLinkChange(worker: string): void {
    const link = this.links.get(worker)
    if (link !== undefined) link.changedAt = this.time.now
  }

  /** Breaks every connection of a host that ended. */
  #dropConnections(host: Process, quiet: boolean): void {
    for (const connection of this.#connections) {
      if (!connection.hostOpen || connection.host !== host) continue
      if (quiet) connection.break(1, 0.5, undefined, undefined)
      else connection.break(1, 0.2, undefined, 5)
    }
  }

  // ---- host --------------------------------------------------------------------------------------------------------

  #createHostMachine(): HostMachine {
    return new HostMachine({
      time: this.time,
      machine: createMachine('host', this.randomFor('machine host'), this.#sleeps),
      disk: this.disk,
      drive: this.drive,
      random: this.randomFor('host'),
      trackerFor: (process, maySend) => this.#tracker.viewFor(process, maySend),
      pullsFor: (process) => this.codehost.viewFor(process),
      onInspected: this.#onInspected,
      observer: {
        onStarting: (process) => {
          this.note(`${process.name} starts`)
          this.view.onHostStarting()
          this.#observers.with('onHostStarting').forEach((observer) => void observer.onHostStarting())
        },
        onRowsDamaged: (rows) => {
          for (const row of rows) {
            this.note(`${row.collection} ${row.key} of the host is ${row.how}`)
            this.countOutcome(`damaged ${row.collection} of the host`)
            this.view.onHostRowDamaged(row)
          }
        },
        onServing: (process) => {
          this.note(`${process.name} serves`)
          this.rethrowLater(() =>
            this.#observers.with('onHostServing').forEach((observer) => void observer.onHostServing()),
          )
        },
        onEnded: (process, how) => {
          this.note(`${process.name} ends: ${how}`)
          this.#dropConnections(process, how === 'power')
          if (this.disk.owner === process) for (const seat of this.view.viewers) seat.close()
        },
        onCommitRequested: ({ number }) => this.note(`commit ${number} is requested`),
        onBeforeCommit: (batch) => {
          for (const observer of this.#observers.with('onBeforeCommit')) observer.onBeforeCommit(batch)
        },
        onCommitted: (batch) => this.#onCommitted(batch),
        onBugReported: (what, fields) =>
          this.rethrowLater(() => {
            const facts = { fields: jsonOf(fields) }
            throw new LawViolation(NO_BUG_LAW.number, NO_BUG_LAW.sentence, what, facts, this.time.now)
          }),
        onLog: (level, fields, message) => {
          const text = `host logs (${level}) ${message} ${jsonOf(fields)}`
          this.note(text)
          this.rethrowLater(() =>
            this.#observers.with('onLog').forEach((observer) => void observer.onLog(text)),
          )
        },
      },
    })
  }

  #onCommitted(batch: DiskBatch): void {
    for (const change of batch.changes) this.note(`disk ${batch.number}: ${describeChange(change)}`)
    for (const change of batch.changes) {
      if (change.is === 'key-value' && change.collection === 'ended-lease')
        this.#endedAt.set(change.key, this.time.now)
      if (change.is !== 'run') continue
      this.#runWrittenAt.set(change.key, this.time.now)
      if (!this.#runCreatedAt.has(change.key)) this.#runCreatedAt.set(change.key, this.time.now)
      this.#changedAt = this.time.now
    }
    const changedLeases = this.view.onCommitted(batch)
    for (const observer of this.#observers.with('onCommitted')) observer.onCommitted(batch)
    for (const lease of changedLeases) {
      if (!this.#grantedAt.has(lease.id)) this.#grantedAt.set(lease.id, this.time.now)
      this.onLeaseStateChanged(lease)
    }
  }

  /** The live leases of one worker, or all. */
  leasesOf(workerId?: string): readonly LiveLease[] {
    return workerId === undefined ? this.view.leases : this.view.leasesOn(workerId)
  }

  workerOf(lease: LiveLease): SimWorker | undefined {
    return [...this.workers.values()].find(({ workerId }) => workerId === lease.workerId)
  }
}

export function stateOf(lease: LiveLease): LeaseState | undefined {
  // The view names lease states as the plan does.
  return lease.state as LeaseState
}

function jsonOf(fields: object): string {
  return JSON.stringify(fields, (_key, value: unknown) =>
    value instanceof Error ? { message: value.message, stack: value.stack } : value,
  )
}
