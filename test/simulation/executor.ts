/**
 * The hands of a simulated daemon: executions that take their time, report all sorts of things, open a pull request
 * and go when they are told to. No agent, no sandbox; but they keep the promises of the contract, and those alone.
 *
 * Each report has a word of its own (`<lease> <how manieth>`), so that whoever looks at the host's disk sees which ones
 * were applied, whatever number the daemon gave them.
 */

import type {
  Execution,
  Executor,
  Objection,
  Order,
  Progress,
  StopOrder,
  Telling,
  Told,
  Worked,
} from '../../core/daemon/ports.ts'
import type { BootedSandbox } from '../../core/daemon/terminal.ts'
import type { Clock } from '../../core/ports.ts'
import { type Answer, no, yes } from '../../core/refusal.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import type { Random } from '../support/random.ts'
import type { WorkerPlan } from './plan.ts'
import type { Process } from './timeline.ts'
import { costOf, type DaemonExecution, entryOf } from './worker.ts'

export interface HandsWatch {
  started(execution: DaemonExecution): void
  stopped(execution: DaemonExecution): void
  told(execution: DaemonExecution, told: Told): void
  ordered(execution: DaemonExecution, order: StopOrder): void
  published(execution: DaemonExecution): void
  discarded(runId: string): void
}

export interface HandsParts {
  readonly plan: WorkerPlan
  readonly clock: Clock
  readonly process: Process
  readonly random: Random
  readonly watch: HandsWatch
  readonly pullOf: (runId: string) => string
  /** The true time at which a lease runs out for its worker, as the wires say. */
  readonly stopAt: (leaseId: string) => number
  /** Declines nothing that it can do. */
  readonly isContent: () => boolean
}

/** Beyond the patience of whoever asks. */
const SLOW_LOOK_MS = 6_000
const OBJECTIONS: readonly Objection[] = [
  'sandbox: it does not start',
  'disk: 200 MB free',
  'busy: for no reason',
]

export class Hands implements Executor {
  readonly #parts: HandsParts

  constructor(parts: HandsParts) {
    this.#parts = parts
  }

  async objection(): Promise<Objection | undefined> {
    const { random, plan, isContent } = this.#parts
    if (random.chance(0.3)) await this.#later(random.chance(0.02) ? SLOW_LOOK_MS : 200)
    return isContent() || !random.chance(plan.declines) ? undefined : random.pick(OBJECTIONS)
  }

  begin(order: Order, telling: Telling, progressed: (progress: Progress) => void): Execution {
    return new HandedExecution(this.#parts, order, telling, progressed)
  }

  async salvage(runId: string) {
    await this.#later(this.#parts.random.fraction() * 2_000)
    return this.#parts.random.chance(0.5) ? {} : { sandbox: { id: `sb-${runId}` } }
  }

  async boot(): Promise<Answer<BootedSandbox>> {
    return no('unbuilt', 'nobody boots anything here')
  }
  async discard(runId: string): Promise<void> {
    this.#parts.watch.discarded(runId)
  }

  async reclaim(): Promise<void> {}

  #later(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#parts.clock.after(ms, resolve))
  }
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
  readonly #telling: Telling
  readonly #progressed: (progress: Progress) => void
  readonly #pullUrl: string | undefined
  readonly #gone: Promise<void>
  #letGo: () => void = () => {}
  #going = false
  #interrupted = false
  #wake: () => void = () => {}
  #words = 0

  constructor(
    parts: HandsParts,
    { leaseId, job }: Order,
    telling: Telling,
    progressed: (progress: Progress) => void,
  ) {
    this.#parts = parts
    this.leaseId = leaseId
    this.runId = job.run.id
    this.remote = job.repo.remote
    this.#telling = telling
    this.#progressed = progressed
    this.#pullUrl = parts.random.chance(0.6) ? parts.pullOf(this.runId) : undefined
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

  async prepare(): Promise<Answer<Progress>> {
    const { random } = this.#parts
    await this.#pause(200 + random.fraction() * 8_000)
    if (this.#isStopping) return no('failed', 'it was stopped')
    if (random.chance(0.02)) return no('failed', 'the branch is gone')
    return yes({ sandbox: { id: `sb-${this.runId}` } })
  }

  async work(): Promise<Worked> {
    const { random } = this.#parts
    let before = 0
    for (const { at, act } of this.#script()) {
      await this.#pause(at - before)
      before = at
      if (this.#isStopping) return { verdict: 'stopped', reason: 'it was stopped' }
      if (random.chance(0.2)) await this.#telling.room()
      act()
    }
    return random.chance(0.1) ? { verdict: 'failed', reason: 'the agent gave up' } : { verdict: 'done' }
  }

  async finish({ verdict, reason }: Worked): Promise<RunOutcome> {
    const { random } = this.#parts
    if (!this.killed) {
      await this.#pause(random.fraction() * 2_000)
      this.#snapshot(0)
      if (random.chance(0.3)) this.#remember()
    }
    const pull = verdict === 'done' ? await this.#published() : {}
    this.#goSoon()
    const costs = [costOf(this.leaseId, 1_000)]
    if (verdict !== 'done') return { status: 'failed', error: reason ?? verdict, costs }
    return { status: 'completed', result: { artifacts: [], ...pull }, costs }
  }

  stop(order: StopOrder): void {
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

  gone(): Promise<void> {
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

  /** A request that was sent before the kill still arrives: it counts from when it is sent. */
  async #published(): Promise<{ readonly prUrl?: string }> {
    const prUrl = this.#pullUrl
    await this.#pause(this.#parts.random.fraction() * 4_000)
    if (this.killed || prUrl === undefined) return {}
    this.#parts.watch.published(this)
    this.#progressed({ branch: `switchyard/${this.runId}`, prUrl, prState: 'open' })
    await this.#pause(this.#parts.random.fraction() * (this.#parts.random.chance(0.3) ? 20_000 : 1_000))
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
    if (random.chance(0.3)) add(anywhere(), () => this.#remember())
    // Now and then more than may wait, of what may not be dropped.
    const patches = random.chance(0.1) ? 40 : random.below(3)
    for (let n = patches; n > 0; n--) add(anywhere(), () => this.#spend())
    add(1, () => {})
    return acts.sort((a, b) => a.at - b.at)
  }

  #tell(made: (word: string, at: string) => Told): void {
    const at = new Date(this.#parts.clock.now()).toISOString()
    const told = made(`${this.leaseId} ${++this.#words}`, at)
    this.#parts.watch.told(this, told)
    this.#telling.tell(told)
  }

  #print(): void {
    this.#tell((text, at) => ({ is: 'event', event: { type: 'log', at, stream: 'stdout', text } }))
  }

  #spend(): void {
    const costs = [costOf(this.leaseId, 500)]
    this.#tell((agentSessionId) => ({ is: 'patch', patch: { agentSessionId, costs } }))
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
