/**
 * One run on this machine, from its folder to an outcome: checkout, setup, agent, what it left, publishing. Where it
 * begins and what it publishes is its course's: a ticket's first work has another one than a follow-up.
 *
 * The daemon decides when each phase comes and when it is over; this only does it. Everything that touches the agent's
 * tree runs inside; nothing inside holds a secret that it does not need; nothing that others can see happens once the
 * lease is gone.
 */
import type {
  AgentOutcome,
  Execution,
  ExecutionReporter,
  ExecutionRequest,
  Progress,
  StopRequest,
} from '../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { PROSE_CHARS_MAX, TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { cutToChars } from '../../protocol/text-budget.ts'
import type { AgentOutcome } from '../agents/agent.ts'
import { openAgentFiles } from '../agents/agent-files.ts'
import { bestCost } from '../agents/cost.ts'
import { type AgentStart, agentStart, exportUsage } from './agent-start.ts'
import { AgentWatch } from './agent-watch.ts'
import { type Leavings, tellLeavings } from './collect-outputs.ts'
import type { HandsParts } from './dependencies.ts'
import { FollowUp } from './follow-up-plan.ts'
import { NewWork } from './new-run-plan.ts'
import { occupantOf, wallsOf } from './sandbox-metadata.ts'
import { Room, type ScriptEnd } from './sandbox-session.ts'
import type { Sandboxes } from './sandboxes.ts'
import type { Course, Errand, Shown } from './work-plan.ts'

export interface ExecutionParts {
  readonly hands: HandsParts
  readonly sandboxes: Sandboxes
  readonly order: ExecutionRequest
  readonly reporter: ExecutionReporter
  readonly progressed: (progress: Progress) => void
  /** Nothing of it is left but its disk. */
  readonly gone: () => void
}

/** Below that much free disk an agent is stopped rather than let the whole machine run full. */
const FREE_BYTES_MIN = 256 * 1024 * 1024
/** The host waits fifteen seconds for the end of what it cancels, and most of them are the agent's. */
const STOPPED_LEAVINGS_MS_MAX = 2_000
/** Why what works on a person's own machine may fail here. */
const REACH = {
  open: '',
  allowlist: ' (sandbox.network is allowlist: it reached nothing but sandbox.allowedHosts)',
  none: ' (sandbox.network is none: it reached no other machine)',
} as const
const NO_LEAVINGS: Leavings = { artifacts: [], facts: [], leftOut: [] }

export class RunExecution implements Execution {
  readonly #parts: ExecutionParts
  readonly #course: Course
  readonly #abort = new AbortController()
  /** Not even what was begun may be brought to its end. */
  readonly #end = new AbortController()
  #stop: StopRequest | undefined
  #room: Room | undefined
  #watch: AgentWatch | undefined
  #checkedOut = false
  #errand: Errand | undefined
  #start: AgentStart | undefined
  /** When the agent went on with a session that had been there before. */
  #since: string | undefined
  #ending: AgentOutcome | undefined
  #sessionId: string | undefined
  #busy: Promise<unknown> = Promise.resolve()
  #retained = false

  constructor(parts: ExecutionParts) {
    this.#parts = parts
    this.#course = courseFor(parts)
  }

  // ---- the phases ------------------------------------------------------------------------------------------------

  prepare(): Promise<Result<Progress>> {
    return this.#phase(
      async () => {
        const room = await this.#makeRoom()
        const checked = await this.#course.checkOut(room, this.#abort.signal)
        if (!checked.ok) return this.#stop === undefined ? checked : this.#stopped()
        this.#checkedOut = true
        this.#errand = this.#course.errand()
        const failed = this.#errand === undefined ? undefined : await this.#setUp(room)
        if (failed !== undefined) return failed
        return this.#stop === undefined ? yes({ sandbox: this.#sandbox() }) : this.#stopped()
      },
      (reason) => no('failed', reason),
    )
  }

  runAgent(): Promise<AgentOutcome> {
    return this.#phase(
      async () => {
        const room = this.#room
        if (room === undefined || this.#stop !== undefined) return this.#stoppedWork()
        const errand = this.#errand
        if (errand === undefined) return { verdict: 'done' }
        const started = await agentStart(this.#parts.hands, this.#parts.order.job, errand)
        if (!started.ok) return { verdict: 'failed', reason: started.refusal.message }
        this.#start = started.value
        if (errand.resume !== undefined) this.#since = this.#instant()
        this.#noteAgent(started.value)
        const process = room.start({ ...started.value.command, wayOut: true })
        if (process === undefined) return this.#stoppedWork()
        const { hands, order, reporter } = this.#parts
        this.#watch = new AgentWatch({
          process,
          listener: started.value.listener,
          reporter,
          clock: hands.clock,
          log: hands.log,
          limits: order.job.limits,
          stallMs: hands.stallMs,
          trouble: () => this.#trouble(),
          session: (id) => this.#captured(id),
        })
        if (this.#stop !== undefined) this.#tellWatch(this.#stop)
        const { worked, ending } = await this.#watch.watched()
        this.#watch = undefined
        this.#ending = ending
        return worked
      },
      (reason) => ({ verdict: 'failed', reason }),
    )
  }

  finish(worked: AgentOutcome): Promise<RunOutcome> {
    return this.#phase(
      async () => {
        const costs = await this.#spent()
        const leavings = await this.#orElse(this.#leavings(), () => NO_LEAVINGS)
        const published = await this.#orElse(this.#published(worked), (reason) => no('failed', reason))
        return await this.#outcome(worked, costs, leavings, published)
      },
      (reason) => ({ status: 'failed', error: reason, costs: [] }),
    )
  }

  stop(order: StopRequest): void {
    // The harder order wins, the first reason stays.
    if (this.#stop?.how === 'kill') return
    this.#stop = { ...order, reason: this.#stop?.reason ?? order.reason }
    this.#abort.abort()
    if (order.how === 'kill' || order.leaseLost === true) this.#end.abort()
    if (this.#watch !== undefined) this.#tellWatch(order)
    if (order.how === 'kill' || this.#watch === undefined) this.#room?.stop()
  }

  async whenExited(): Promise<void> {
    await this.#busy
    await this.#room?.close()
    // Given up before its end: another machine does the work anew, and nobody will ask for this disk.
    if (!this.#retained && !this.#course.isKept())
      await this.#parts.sandboxes.discard(this.#parts.order.job.run.id)
    this.#parts.gone()
  }

  // ---- preparing -------------------------------------------------------------------------------------------------

  async #makeRoom(): Promise<Room> {
    const { hands, order, reporter } = this.#parts
    const { job } = order
    const folders = await this.#course.folders()
    // What is said about the configuration is said before there is a room to say it in.
    const early: string[] = []
    const way = await hands.wayOut({
      network: job.sandbox?.network ?? 'none',
      allowedHosts: job.sandbox?.allowedHosts ?? [],
      folder: folders.root,
      ...(hands.giveAway ? { owner: hands.slotOf(folders.number) } : {}),
      clock: hands.clock,
      log: (line) => (this.#room === undefined ? early.push(line) : this.#room.say(line)),
    })
    const room = new Room({ hands, job, folders, way, reporter })
    this.#room = room
    for (const line of early) room.say(line)
    if (this.#stop !== undefined) room.stop()
    this.#parts.progressed({ sandbox: this.#sandbox(), branch: job.branch })
    return room
  }

  async #setUp(room: Room): Promise<Result<never> | undefined> {
    const { setup, hooks } = this.#parts.order.job.repo
    const how = this.#course.setup()
    const failed = how === 'not' ? undefined : await this.#scripts(room, [['setup', setup]])
    if (failed !== undefined && (how === 'must' || this.#stop !== undefined)) return failed
    return this.#scripts(room, [['hook beforeAgent', hooks?.beforeAgent]])
  }

  async #scripts(
    room: Room,
    scripts: readonly (readonly [name: string, text: string | undefined])[],
  ): Promise<Result<never> | undefined> {
    for (const [name, text] of scripts) {
      if (text === undefined || text.trim() === '') continue
      const end = await room.script(text)
      if (end.code !== 0)
        return this.#stop === undefined ? no('failed', this.#scriptFailed(name, end)) : this.#stopped()
    }
    return undefined
  }

  #scriptFailed(name: string, { code, signal, startFailure: unmade, lateMinutes }: ScriptEnd): string {
    if (unmade !== undefined) return unmade
    const ended = code === undefined ? `was ended by ${signal ?? 'a signal'}` : `ended with exit code ${code}`
    const how =
      lateMinutes === undefined ? ended : `did not end within ${lateMinutes} minutes, and was killed`
    const reach = REACH[this.#parts.order.job.sandbox?.network ?? 'none']
    return `the repository's ${name} ${how}; its output is in the run's log${reach}`
  }

  // ---- working ---------------------------------------------------------------------------------------------------

  async #trouble(): Promise<string | undefined> {
    const free = await this.#parts.hands.freeBytes()
    if (free >= FREE_BYTES_MIN) return undefined
    return `the worker's disk is nearly full (room for ${Math.floor(free / 1024 / 1024)} MiB); make room or set sandbox.diskQuotaGib`
  }

  /** Should this process die, the next one finds out by this what the agent has spent. */
  #noteAgent({ task }: AgentStart): void {
    const { sandboxes, order } = this.#parts
    const { run, agent, sandbox } = order.job
    sandboxes.occupied(run.id, occupantOf(agent, task.sessionId, this.#since), wallsOf(sandbox))
  }

  #captured(id: string): void {
    if (this.#sessionId === id) return
    this.#sessionId = id
    this.#parts.progressed({ agentSessionId: id })
  }

  #tellWatch({ how, reason }: StopRequest): void {
    if (how === 'kill') this.#watch?.kill(reason)
    else this.#watch?.interrupt(reason)
  }

  // ---- finishing -------------------------------------------------------------------------------------------------

  /** After every execution, however it ended. */
  async #spent(): Promise<readonly CostEntry[]> {
    const { hands, order, reporter } = this.#parts
    const start = this.#start
    if (start === undefined || this.#room === undefined) return []
    await this.#room.empty()
    const session = this.#sessionId ?? start.task.sessionId
    const files = openAgentFiles(this.#room.folders.home, this.#inTime(), hands.clock.now())
    const known = await this.#orElse(
      exportUsage(start, files, session, reporter, this.#since),
      () => undefined,
    )
    const cost = this.#ending === undefined ? known : bestCost(this.#ending, known)
    if (cost === undefined) return []
    reporter.report({ is: 'event', event: { type: 'cost', at: this.#instant(), entry: cost } })
    reporter.report({ is: 'patch', patch: { costs: [cost] } })
    hands.log.debug({ runId: order.job.run.id }, 'the agent has ended')
    return [cost]
  }

  async #leavings(): Promise<Leavings> {
    const room = this.#room
    if (room === undefined || this.#killed()) return NO_LEAVINGS
    await room.empty()
    const leavings = await tellLeavings(
      room.folders.out,
      this.#parts.reporter,
      () => this.#instant(),
      this.#inTime(),
    )
    if (leavings.leftOut.length > 0) room.say(leavings.leftOut.join('\n'))
    return leavings
  }

  /** What the agent made is brought out and shown to people, when it is done and the lease is still ours. */
  async #published(worked: AgentOutcome): Promise<Result<Shown | undefined>> {
    const { order } = this.#parts
    const room = this.#room
    if (worked.verdict !== 'done' || room === undefined || !this.#checkedOut) return yes(undefined)
    const hook = this.#start === undefined ? undefined : order.job.repo.hooks?.afterAgent
    const failed = await this.#scripts(room, [['hook afterAgent', hook]])
    if (failed !== undefined) return failed
    const published = await this.#course.publish({
      room,
      said: this.#ending?.summary ?? '',
      fence: () => this.#stop === undefined,
      signal: this.#abort.signal,
      toEnd: { fence: () => !this.#end.signal.aborted, signal: this.#end.signal },
    })
    if (published.ok && published.value !== undefined) {
      const { summary: _, ...progress } = published.value
      this.#parts.progressed(progress)
    }
    return published
  }

  async #outcome(
    worked: AgentOutcome,
    costs: readonly CostEntry[],
    { artifacts }: Leavings,
    published: Result<Shown | undefined>,
  ): Promise<RunOutcome> {
    const pull = published.ok ? published.value : undefined
    const sandbox = await this.#orElse(this.#retain(worked, published), () => undefined)
    const summary = this.#summary(published)
    const { branch, prUrl, prState } = pull ?? {}
    return {
      ...verdictOf(worked, published, this.#stop),
      costs: [...costs],
      result: {
        artifacts: [...artifacts],
        ...(summary === '' ? {} : { summary: cutToChars(summary, PROSE_CHARS_MAX) }),
        ...(branch === undefined ? {} : { branch }),
        ...(prUrl === undefined ? {} : { prUrl }),
      },
      ...(prUrl === undefined ? {} : { prUrl }),
      ...(prState === undefined ? {} : { prState }),
      ...(this.#sessionId === undefined ? {} : { agentSessionId: this.#sessionId }),
      ...(sandbox === undefined ? {} : { sandbox }),
    }
  }

  #summary(published: Result<Shown | undefined>): string {
    const said = (published.ok ? published.value?.summary : undefined) ?? this.#ending?.summary ?? ''
    const nothing = published.ok && published.value === undefined && this.#ending?.verdict === 'done'
    return nothing
      ? `${said}\n\nNothing in the repository was changed, so there is no pull request.`.trim()
      : said
  }

  async #retain(worked: AgentOutcome, published: Result<Shown | undefined>) {
    const { sandboxes, order } = this.#parts
    if (this.#room === undefined || this.#stop?.leaseLost === true) return undefined
    // No agent was there: nothing to go on with, and nothing that the log does not say. Nobody is to wait for it.
    if (this.#start === undefined && !this.#course.isKept())
      return { ...this.#sandbox(), retainedUntil: this.#instant() }
    this.#retained = true
    const isOut = worked.verdict === 'done' && published.ok
    const retainedUntil = await sandboxes.retain(order.job.run.id, {
      hours: order.job.retentionHours,
      unpushed: !isOut || this.#course.holdsMore(),
      sessionId: this.#sessionId,
    })
    return retainedUntil === undefined ? undefined : { ...this.#sandbox(), retainedUntil }
  }

  // ---- small ones ------------------------------------------------------------------------------------------------

  /** One after the other, and whatever is thrown becomes a sentence. */
  #phase<T>(work: () => Promise<T>, failed: (reason: string) => T): Promise<T> {
    const done = this.#orElse(work(), failed)
    this.#busy = done
    return done
  }

  /** At the end of a run each step stands alone: a disk that is full in one must not cost what the others have. */
  #orElse<T>(step: Promise<T>, failed: (reason: string) => T): Promise<T> {
    return step.catch((error: unknown) => {
      const { hands, order } = this.#parts
      hands.log.error({ err: error, runId: order.job.run.id }, 'a step of a run failed unforeseen')
      return failed(cutToChars(error instanceof Error ? error.message : String(error), TEXT_CHARS_MAX))
    })
  }

  #sandbox() {
    const { workerId, job } = this.#parts.order
    return { provider: 'bwrap', id: job.run.id, workerId }
  }

  /** From now on: for as long as it takes, or for a moment once the run was told to stop. */
  #inTime(): () => boolean {
    const { clock } = this.#parts.hands
    const began = clock.monotonic()
    const isLate = () => this.#stop !== undefined && clock.monotonic() - began > STOPPED_LEAVINGS_MS_MAX
    return () => !this.#killed() && !isLate()
  }

  #killed(): boolean {
    return this.#stop?.how === 'kill'
  }

  #stopped(): Result<never> {
    return no('conflict', this.#stop?.reason ?? 'stopped')
  }

  #stoppedWork(): AgentOutcome {
    return { verdict: 'stopped', reason: this.#stop?.reason ?? 'stopped' }
  }

  #instant(): string {
    return new Date(this.#parts.hands.clock.now()).toISOString()
  }
}

function courseFor({ hands, sandboxes, order }: ExecutionParts): Course {
  return order.job.kind === 'follow-up'
    ? new FollowUp(hands, sandboxes, order)
    : new NewWork(hands, sandboxes, order)
}

function verdictOf(
  worked: AgentOutcome,
  published: Result<unknown>,
  stop: StopRequest | undefined,
): Pick<RunOutcome, 'status' | 'error'> {
  if (worked.verdict === 'stopped') return { status: 'cancelled', error: sentence(worked.reason) }
  if (worked.verdict === 'failed') return { status: 'failed', error: sentence(worked.reason) }
  if (published.ok) return { status: 'completed' }
  if (stop !== undefined) return { status: 'cancelled', error: sentence(stop.reason) }
  return { status: 'failed', error: sentence(published.refusal.message) }
}

const sentence = (reason: string | undefined): string =>
  cutToChars(reason === undefined || reason === '' ? 'it does not say why' : reason, TEXT_CHARS_MAX)
