/**
 * The hands of a simulated daemon: executions that take their time, report all sorts of things, open a pull request
 * and go when they are told to. No agent, no sandbox; but they keep the promises of the contract, and those alone.
 *
 * A follow-up pushes and says what it did, each once: whatever an earlier execution of it got done is looked up first.
 *
 * Each report has a word of its own (`<lease> <how manieth>`), so that whoever looks at the host's disk sees which ones
 * were applied, whatever number the daemon gave them.
 */

import type {
  AgentOutcome,
  DispatchRefusal,
  Execution,
  ExecutionReport,
  ExecutionReporter,
  ExecutionRequest,
  Executor,
  Progress,
  StopRequest,
} from '../../core/daemon/ports.ts'
import type { BootedSandbox, BootRequest } from '../../core/daemon/terminal.ts'
import type { Clock } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { JobFollowUp, RunOutcome } from '../../protocol/frames.ts'
import type { RunSandbox } from '../../protocol/run.ts'
import type { Random } from '../support/random.ts'
import type { SimCodehost } from './codehost.ts'
import type { WorkerPlan } from './plan.ts'
import { Boots, type BootsWatch, type Shelf } from './sandboxes.ts'
import type { Process } from './timeline.ts'
import { costOf, type DaemonExecution, entryOf } from './worker.ts'

export interface HandsWatch extends BootsWatch {
  started(execution: DaemonExecution): void
  stopped(execution: DaemonExecution): void
  told(execution: DaemonExecution, told: ExecutionReport): void
  ordered(execution: DaemonExecution, order: StopRequest): void
  published(execution: DaemonExecution): void
  /** A follow-up has pushed, or said what it did. */
  followedUp(execution: DaemonExecution, followUpId: string): void
  discarded(runId: string): void
  /** Disk is looked through for what may be taken back, and what was. */
  reclaims(isClaimed: (runId: string) => boolean): void
  tookBack(runId: string): void
}

export interface HandsParts {
  readonly plan: WorkerPlan
  readonly clock: Clock
  readonly process: Process
  readonly random: Random
  readonly watch: HandsWatch
  readonly codehost: SimCodehost
  readonly shelf: Shelf
  /** True time. */
  readonly now: () => number
  readonly sessionOf: (runId: string) => string | undefined
  /** Something of it runs in this process. */
  readonly isExecuted: (runId: string) => boolean
  /** The true time at which a lease runs out for its worker, as the wires say. */
  readonly stopAt: (leaseId: string) => number
  /** Declines nothing that it can do. */
  readonly isContent: () => boolean
}

/** Somebody else pushes in between, and it is fetched again. */
const PUSHES_MAX = 3
/** Beyond the patience of whoever asks. */
const SLOW_LOOK_MS = 6_000
const OBJECTIONS: readonly DispatchRefusal[] = [
  'sandbox: it does not start',
  'disk: 200 MB free',
  'busy: for no reason',
]

export class Hands implements Executor {
  readonly #parts: HandsParts
  readonly #boots: Boots

  constructor(parts: HandsParts) {
    this.#parts = parts
    this.#boots = new Boots({ ...parts, worker: parts.plan.id })
  }

  async refusalOf(): Promise<DispatchRefusal | undefined> {
    const { random, plan, isContent } = this.#parts
    if (random.random(0.3)) await this.#later(random.random(0.02) ? SLOW_LOOK_MS : 200)
    return isContent() || !random.random(plan.declines) ? undefined : random.pick(OBJECTIONS)
  }

  start(
    order: ExecutionRequest,
    reporter: ExecutionReporter,
    progressed: (progress: Progress) => void,
  ): Execution {
    this.#parts.shelf.use(order.job.run.id)
    return new HandedExecution(this.#parts, order, reporter, progressed)
  }

  async recover(runId: string) {
    const { random, shelf } = this.#parts
    await this.#later(random.fraction() * 2_000)
    if (random.random(0.5) || !shelf.kept.has(runId)) return {}
    return { sandbox: retained(this.#parts, runId) }
  }

  boot(order: BootRequest): Promise<Result<BootedSandbox>> {
    return this.#boots.boot(order)
  }

  async discard(runId: string): Promise<void> {
    this.#parts.watch.discarded(runId)
    this.#parts.shelf.kept.delete(runId)
  }

  async reclaim(isClaimed: (runId: string) => boolean): Promise<void> {
    const { clock, isExecuted, random, shelf, watch } = this.#parts
    await this.#later(random.fraction() * 200)
    watch.reclaims(isClaimed)
    for (const { runId, until } of [...shelf.kept.values()]) {
      if (isExecuted(runId) || isClaimed(runId) || (until ?? 0) > clock.now()) continue
      shelf.kept.delete(runId)
      watch.tookBack(runId)
    }
  }

  #later(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#parts.clock.after(ms, resolve))
  }
}

/** Most are kept for longer than anybody looks on; some are taken back while people come and go. */
const KEPT_MS = 72 * 3_600_000
const KEPT_MS_MIN = 60_000
const KEPT_MS_MAX = 40 * 60_000

/** From now on it is kept for a while. */
function retained({ clock, random, shelf }: HandsParts, runId: string): RunSandbox {
  const ms = random.random(0.6) ? KEPT_MS : KEPT_MS_MIN + random.fraction() * (KEPT_MS_MAX - KEPT_MS_MIN)
  const until = clock.now() + ms
  shelf.use(runId).until = until
  return { provider: 'bwrap', id: `sb-${runId}`, retainedUntil: new Date(until).toISOString() }
}

interface Act {
  readonly at: number
  readonly act: () => void
}

class HandedExecution implements Execution, DaemonExecution {
  readonly leaseId: string
  readonly runId: string
  readonly remote: string
  killed = false
  readonly #parts: HandsParts
  readonly #reporter: ExecutionReporter
  readonly #progressed: (progress: Progress) => void
  readonly #pullUrl: string | undefined
  readonly #followUp: JobFollowUp | undefined
  readonly #gone: Promise<void>
  #letGo: () => void = () => {}
  #going = false
  #interrupted = false
  #wake: () => void = () => {}
  #words = 0
  #sessionId: string | undefined

  constructor(
    parts: HandsParts,
    { leaseId, job }: ExecutionRequest,
    reporter: ExecutionReporter,
    progressed: (progress: Progress) => void,
  ) {
    this.#parts = parts
    this.leaseId = leaseId
    this.runId = job.run.id
    this.remote = job.repo.remote
    this.#reporter = reporter
    this.#progressed = progressed
    this.#followUp = job.followUp
    this.#pullUrl =
      parts.random.random(0.6) || job.followUp !== undefined ? parts.codehost.pullOf(this.runId) : undefined
    this.#gone = new Promise((resolve) => {
      this.#letGo = resolve
    })
    parts.watch.started(this)
  }

  get worker(): string {
    return this.#parts.plan.id
  }

  get process(): Process {
    return this.#parts.process
  }

  get stopAt(): number {
    return this.#parts.stopAt(this.leaseId)
  }

  async prepare(): Promise<Result<Progress>> {
    const { random } = this.#parts
    await this.#pause(200 + random.fraction() * 8_000)
    if (this.#isStopping) return no('failed', 'it was stopped')
    if (random.random(0.02)) return no('failed', 'the branch is gone')
    return yes({ sandbox: { id: `sb-${this.runId}` } })
  }

  async runAgent(): Promise<AgentOutcome> {
    const { random } = this.#parts
    let before = 0
    for (const { at, act } of this.#script()) {
      await this.#pause(at - before)
      before = at
      if (this.#isStopping) return { verdict: 'stopped', reason: 'it was stopped' }
      if (random.random(0.2)) await this.#reporter.waitForCapacity()
      act()
    }
    return random.random(0.1) ? { verdict: 'failed', reason: 'the agent gave up' } : { verdict: 'done' }
  }

  async finish({ verdict, reason }: AgentOutcome): Promise<RunOutcome> {
    const { random } = this.#parts
    if (!this.killed) {
      await this.#pause(random.fraction() * 2_000)
      this.#snapshot(0)
      this.#sum()
      if (random.random(0.3)) this.#remember()
    }
    const pull = verdict === 'done' ? await this.#delivered() : {}
    this.#goSoon()
    const costs = [costOf(this.leaseId, 1_000)]
    const sandbox = retained(this.#parts, this.runId)
    if (verdict !== 'done') return { status: 'failed', error: reason ?? verdict, costs, sandbox }
    if (this.#followUp !== undefined && pull.prUrl === undefined)
      return { status: 'failed', error: 'it could not be pushed', costs, sandbox }
    return { status: 'completed', result: { artifacts: [], ...pull }, costs, sandbox }
  }

  stop(order: StopRequest): void {
    const { random, plan, clock, watch } = this.#parts
    this.killed ||= order.how === 'kill'
    watch.ordered(this, order)
    if (this.killed) this.#goSoon()
    const obey = () => {
      this.#interrupted = true
      this.#wake()
    }
    if (this.killed) obey()
    else clock.after(random.fraction() * plan.cancelMsMax, obey)
  }

  whenExited(): Promise<void> {
    return this.#gone
  }

  get #isStopping(): boolean {
    return this.#interrupted || this.killed
  }

  /** Whoever is stopped waits no longer. */
  #pause(ms: number): Promise<void> {
    if (this.#isStopping) return Promise.resolve()
    return new Promise((resolve) => {
      const enough = this.#parts.clock.after(ms, resolve)
      this.#wake = () => {
        enough()
        resolve()
      }
    })
  }

  /** Its processes need a moment, also after a kill. */
  #goSoon(): void {
    if (this.#going) return
    this.#going = true
    const { random, plan, clock, watch } = this.#parts
    clock.after(random.fraction() * plan.dyingMsMax, () => {
      watch.stopped(this)
      this.#letGo()
    })
  }

  #delivered(): Promise<{ readonly prUrl?: string }> {
    const url = this.#pullUrl
    if (this.#followUp === undefined || url === undefined) return this.#published()
    return this.#followedUp(url, this.#followUp.id)
  }

  /** Only once all of it is done the pull request is worth remembering: one that was cut short is begun anew. */
  async #followedUp(prUrl: string, id: string): Promise<{ readonly prUrl?: string }> {
    const { codehost, random } = this.#parts
    for (let tries = 0; tries < PUSHES_MAX && !codehost.hasPushed(prUrl, id); tries++) {
      const head = codehost.headOf(prUrl)
      await this.#pause(random.fraction() * 3_000)
      if (this.killed) return {}
      if (codehost.push(prUrl, head, id)) this.#parts.watch.followedUp(this, id)
    }
    if (!codehost.hasPushed(prUrl, id)) return {}
    await this.#pause(random.fraction() * 3_000)
    if (this.killed) return {}
    if (codehost.summaries(prUrl, id) === 0) {
      codehost.sum(prUrl, id)
      this.#parts.watch.followedUp(this, id)
    }
    this.#progressed({ branch: `branch of ${prUrl}`, prUrl, prState: 'open' })
    await this.#pause(random.fraction() * 2_000)
    return { prUrl }
  }

  /** A request that was sent before the kill still arrives: it counts from when it is sent. */
  async #published(): Promise<{ readonly prUrl?: string }> {
    const prUrl = this.#pullUrl
    await this.#pause(this.#parts.random.fraction() * 4_000)
    if (this.killed || prUrl === undefined) return {}
    this.#parts.watch.published(this)
    this.#progressed({ branch: `switchyard/${this.runId}`, prUrl, prState: 'open' })
    await this.#pause(this.#parts.random.fraction() * (this.#parts.random.random(0.3) ? 20_000 : 1_000))
    return { prUrl }
  }

  // ---- what it reports ---------------------------------------------------------------------------------------------

  #script(): readonly Act[] {
    const { random, plan } = this.#parts
    const total = 4_000 * (plan.runMsMax / 4_000) ** random.fraction()
    const acts: Act[] = []
    const add = (at: number, act: () => void) => void acts.push({ at: at * total, act })
    const anywhere = () => random.fraction()
    for (let n = random.below(plan.chatter); n > 0; n--) add(anywhere(), () => this.#print())
    for (let n = random.below(3); n > 0; n--) add(anywhere(), () => this.#snapshot(random.below(3)))
    for (let n = random.below(3); n > 0; n--) this.#addArtifact(add, n)
    if (random.random(0.3)) add(anywhere(), () => this.#remember())
    // Now and then more than may wait, of what may not be dropped.
    const patches = random.random(0.1) ? 40 : random.below(3)
    for (let n = patches; n > 0; n--) add(anywhere(), () => this.#spend())
    // Most agents say which session it is.
    if (random.random(0.8)) add(0, () => this.#spend())
    add(1, () => {})
    return acts.sort((a, b) => a.at - b.at)
  }

  #tell(made: (word: string, at: string) => ExecutionReport): void {
    const at = new Date(this.#parts.clock.now()).toISOString()
    const told = made(`${this.leaseId} ${++this.#words}`, at)
    this.#parts.watch.told(this, told)
    this.#reporter.report(told)
  }

  #print(): void {
    this.#tell((text, at) => ({ is: 'event', event: { type: 'log', at, stream: 'stdout', text } }))
  }

  #spend(): void {
    const costs = [costOf(this.leaseId, 500)]
    // The id of a session has no space in it.
    this.#tell((word) => {
      this.#sessionId = word.replace(' ', '_')
      return { is: 'patch', patch: { agentSessionId: this.#sessionId, costs } }
    })
  }

  /** What the session has come to, for whoever goes on with it: a person's own part is told apart by it. */
  #sum(): void {
    const { shelf } = this.#parts
    const sessionId = this.#sessionId
    if (sessionId === undefined) return
    this.#tell((word, at) => {
      const { log } = shelf.use(this.runId)
      const entries = [entryOf(word, at), ...log.filter((one) => !one.subagent).map(({ entry }) => entry)]
      log.unshift({ subagent: false, entry: entryOf(word, at) })
      return { is: 'usage', snapshot: { projectKey: 'project', sessionId, entries } }
    })
  }

  #remember(): void {
    this.#tell((word) => ({ is: 'memories', facts: [`fact ${word}`] }))
  }

  /** 0: of the session itself; else of one of its subagents. */
  #snapshot(subagent: number): void {
    const whose = subagent === 0 ? {} : { subagentId: `agent-${subagent}` }
    const place = { projectKey: 'project', sessionId: `session-${this.leaseId}`, ...whose }
    this.#tell((word, at) => ({ is: 'usage', snapshot: { ...place, entries: [entryOf(word, at)] } }))
  }

  #addArtifact(add: (at: number, act: () => void) => void, number: number): void {
    const parts = 1 + this.#parts.random.below(3)
    const begin = this.#parts.random.fraction() * 0.9
    const name = `${this.leaseId}-${number}`
    for (let part = 0; part < parts; part++) {
      const final = part === parts - 1
      add(begin + part * 0.03, () =>
        this.#tell((word) => ({
          is: 'artifact',
          name,
          part,
          final,
          data: Buffer.from(`${word};`).toString('base64'),
        })),
      )
    }
  }
}
