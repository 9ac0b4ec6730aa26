/**
 * JobController starts as many machines as the host wants, in the way in which Kubernetes does with jobs.
 *
 * Each machine takes one run and is gone. The controller never ends one. It subtracts the machines that do not run their
 * worker yet, because `wanted` counts no run that a worker has taken.
 */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { DaemonEnd } from '../../actors/daemon/daemon-context.ts'
import { FLEET_REASONS } from '../../core/fleet/placement.ts'
import type { WorkerFrame } from '../../protocol/frames.ts'
import { drawJobWorker, isQuiet } from './job-plan.ts'
import { isTerminal, type LawObserver, LawViolation } from './laws/law.ts'
import type { ControllerPlan } from './plan.ts'
import type { SimConnection } from './sim-connection.ts'
import type { SimWorker } from './sim-worker.ts'
import { executionRecordsOn } from './worker-disk.ts'
import type { World } from './world.ts'

/** No machine may be started so late that it could not end in time. */
const LAST_POLL_MS = 60_000
/**
 * A machine is idle only when another one took the run for which it was started: the controller asked between a
 * machine's start and its registration. Few machines may exceed the share by chance.
 */
const IDLE_SHARE_MAX = 0.1
const idleMachinesMax = (started: number): number => {
  const expected = started * IDLE_SHARE_MAX
  return Math.ceil(expected + 2 * Math.sqrt(expected))
}

/** The host knows that a worker has closed its connection, and the disk has what follows from it. */
const ANSWER_MS_MAX = 2_000

export class JobController implements LawObserver {
  readonly #world: World
  readonly #plan: ControllerPlan
  readonly #jobs: SimWorker[] = []
  readonly #executions = new Map<string, number>()
  readonly #asked = new Set<SimWorker>()
  /** Workers that said over a good line that they end. */
  readonly #steadyEnds = new Set<string>()
  #idleCount = 0
  #wasNearMax = false

  constructor(world: World, plan: ControllerPlan) {
    this.#world = world
    this.#plan = plan
  }

  start(): void {
    const { time, host, plan } = this.#world
    if (time.now > plan.endMs - LAST_POLL_MS) return
    time.in(this.#plan.pollMs, () => this.start())
    host.callApi((hostApi) => this.#poll(hostApi))
  }

  #poll(hostApi: HostApi): void {
    const demand = hostApi.demand(undefined, this.#world.joinKey?.id)
    if (!demand.ok) return
    const { workersMax } = this.#plan
    const running = this.#jobs.filter(({ isGone }) => !isGone)
    const pending = running.filter(({ isOn }) => !isOn).length
    const wanted = Math.min(demand.value.wanted, workersMax)
    // Near its maximum KEDA does not subtract the pending machines.
    const isOver = wanted + running.length > workersMax
    this.#wasNearMax ||= isOver
    const count = isOver ? workersMax - running.length : wanted - pending
    for (let left = count; left > 0; left--) this.#startMachine()
  }

  #startMachine(): void {
    const { time, plan } = this.#world
    const id = `j${this.#jobs.length + 1}`
    const random = this.#world.randomFor(id)
    const at = time.now + random.fraction() * this.#plan.bootMsMax
    this.#world.note(`the controller starts ${id}`)
    this.#world.countOutcome('machines started')
    if (isQuiet(plan.seed)) this.#world.countOutcome('machines started without faults')
    this.#jobs.push(this.#world.addWorker(drawJobWorker(random, id, at, this.#plan.idleMsMax)))
  }

  // ---- laws --------------------------------------------------------------------------------------------------------

  onExecutionStarted({ worker, leaseId }: { readonly worker: string; readonly leaseId: string }): void {
    const count = (this.#executions.get(worker) ?? 0) + 1
    this.#executions.set(worker, count)
    this.#world.countOutcome('runs begun')
    if (count > 1) this.#fail('a machine for one run executes one run', `${worker} executes ${leaseId}, too`)
  }

  onFault(worker: SimWorker, fault: string): void {
    if (fault === 'worker stop') this.#asked.add(worker)
  }

  onDaemonEnded(worker: SimWorker, { is, detail }: DaemonEnd): void {
    if (is !== 'stopped' || this.#asked.has(worker)) return
    const { view } = this.#world
    const disk = view.workerDiskOf(worker.plan.id)
    const left = disk === undefined ? [] : executionRecordsOn(disk)
    if (left.length > 0)
      this.#fail(
        'a worker ends by itself when all is reported',
        `${left[0]?.leaseId} is on ${worker.plan.id}`,
      )
    this.#checkLeftBehind(worker)
    if (this.#executions.has(worker.plan.id)) return
    this.#idleCount += 1
    this.#world.note(`${worker.plan.id} was started in vain: ${detail}`)
    this.#world.countOutcome('machines idle')
    if (isQuiet(this.#world.plan.seed)) this.#world.countOutcome('machines idle without faults')
  }

  /** A run that was on its way to a worker that ended must not wait until the host gives the worker up. */
  #checkLeftBehind({ plan, workerId = '' }: SimWorker): void {
    // A worker that began a run may have lost its lease meanwhile, for example by a long pause.
    if (!this.#steadyEnds.has(plan.id) || this.#executions.has(plan.id)) return
    const { view, time, host } = this.#world
    const { process } = host
    time.in(ANSWER_MS_MAX, () => {
      const lease = view.leasesOn(workerId)[0]
      if (lease !== undefined && host.process === process && view.isHostAwake())
        this.#fail('a worker that ends by itself leaves no run behind', `${lease.id} is with ${plan.id}`)
    })
  }

  /** A run that is queued while an idle worker says that it ends may be on its way to it. */
  onWorkerSends(worker: SimWorker, _connection: SimConnection, frame: WorkerFrame): void {
    if (frame.type !== 'heartbeat' || frame.capabilities?.ending !== true) return
    if (this.#world.view.isLinkSteady(worker.plan.id)) this.#steadyEnds.add(worker.plan.id)
    if (this.#executions.has(worker.plan.id) || isQuiet(this.#world.plan.seed)) return
    const { view } = this.#world
    const runId = [...view.disk.runs.keys()].find((id) => view.run(id)?.status === 'failed')
    if (runId === undefined) return
    this.#world.countOutcome('runs queued at an idle end')
    this.#world.callHost({ operation: 'retry', runId }, (hostApi) => hostApi.retryRun(runId))
  }

  /** Judges the end of the simulation, when the faults have been over for a long time. */
  judge(): void {
    const { view, host, plan } = this.#world
    for (const runId of view.disk.runs.keys()) {
      const run = view.run(runId)
      if (run === undefined || isTerminal(run) || view.leasesOf(runId).length > 0) continue
      const placement = host.hostApi?.placement(runId)
      const reason = placement?.ok === true ? placement.value.reason : undefined
      if (REASONS.has(reason ?? '') || reason?.endsWith('holds the sandbox') === true)
        this.#fail('no run waits for a machine in the end', `${runId}: ${reason}`)
    }
    if (!isQuiet(plan.seed) || this.#wasNearMax) return
    const most = idleMachinesMax(this.#jobs.length)
    if (this.#idleCount > most)
      this.#fail(
        'without faults hardly any machine is started in vain',
        `${this.#idleCount} of ${this.#jobs.length} were`,
      )
  }

  #fail(sentence: string, what: string): never {
    throw new LawViolation('J', sentence, what, {}, this.#world.time.now)
  }
}

const REASONS: ReadonlySet<string> = new Set(Object.values(FLEET_REASONS))
