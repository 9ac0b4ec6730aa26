/**
 * Performs the visits of a plan: each person acts on one ended run through the host's API.
 *
 * People do not coordinate and do not wait until an action is allowed: refusals are part of the test.
 */
import { yes } from '../../core/result.ts'
import { isTerminal } from './laws/law.ts'
import { EXIT_INPUT } from './sandbox-boots.ts'
import type { SimWorker } from './sim-worker.ts'
import { TerminalViewer } from './terminal-viewers.ts'
import type { Visit, VisitAction, VisitActionKind } from './visit-plan.ts'
import type { World } from './world.ts'

/** Longest downtime of a crashed host. */
const HOST_DOWNTIME_MS_MAX = 100_000
/** Longest downtime of a crashed worker: more than twice the time for which the host waits for it. */
const WORKER_DOWNTIME_MS_MAX = 300_000
/** Long enough to miss events, too short for the connection to be closed. */
const HOST_PAUSE_MS = 25_000
/** Up to this strength of a host crash the person releases the sandbox that the new host does not know. */
const RELEASED_AFTER_CRASH_MAX = 0.75
/** Time after the start of a host in which workers reconnect. */
const HOST_START_MS_MAX = 20_000
const PREFERRED_SHARE = 0.8
/** Terminals that one person keeps open. */
const VIEWERS_MAX = 3

export function scheduleVisits(world: World): void {
  for (const visit of world.plan.visits) {
    const visitor = new Visitor(world, visit)
    for (const action of visit.actions) world.time.at(action.at, () => visitor.perform(action))
  }
}

class Visitor {
  readonly #world: World
  readonly #visit: Visit
  readonly #viewers: TerminalViewer[] = []
  #runId: string | undefined
  #inputCount = 0

  constructor(world: World, visit: Visit) {
    this.#world = world
    this.#visit = visit
  }

  perform(action: VisitAction): void {
    if (this.#openViewers.length === 0 && !this.#hasResult(this.#runId)) this.#runId = this.#chooseRun()
    if (this.#runId === undefined) return
    this.#world.note(`${this.#visit.id} tries to ${action.kind} (${this.#runId})`)
    this.#actions[action.kind](this.#runId, action.size)
  }

  /** Mostly a run with a sandbox to view and a pull request to follow up. */
  #chooseRun(): string | undefined {
    const { disk } = this.#world
    const ended = [...disk.runs.keys()].sort().filter((runId) => isTerminal(disk.run(runId)))
    const preferred = ended.filter((runId) => this.#hasResult(runId))
    const candidates =
      preferred.length > 0 && (this.#visit.target * 10) % 1 < PREFERRED_SHARE ? preferred : ended
    return candidates[Math.floor(this.#visit.target * candidates.length)]
  }

  #hasResult(runId: string | undefined): boolean {
    const { sandbox, agentSessionId, prUrl } = { sandbox: undefined, ...this.#world.disk.run(runId ?? '') }
    return sandbox?.id !== undefined && agentSessionId !== undefined && prUrl !== undefined
  }

  readonly #actions: Readonly<Record<VisitActionKind, (runId: string, size: number) => void>> = {
    resume: (runId) =>
      this.#world.callHost({ operation: 'resume', runId }, (hostApi) => hostApi.resumeRun(runId)),
    attach: (runId, size) => this.#attach(runId, size),
    type: (_, size) => this.#withViewer(size, (viewer) => viewer.receiver?.onInput(this.#nextInput())),
    resize: (_, size) =>
      this.#withViewer(size, (viewer) =>
        viewer.receiver?.onResize(20 + Math.floor(size * 200), 10 + Math.floor(size * 50)),
      ),
    'end the session': (_, size) => this.#withViewer(size, (viewer) => viewer.receiver?.onInput(EXIT_INPUT)),
    detach: (_, size) => this.#withViewer(size, (viewer) => viewer.leave()),
    release: (runId) =>
      this.#world.callHost({ operation: 'release', runId }, (hostApi) => hostApi.releaseRun(runId)),
    discard: (runId) =>
      this.#world.callHost({ operation: 'discard', runId }, (hostApi) => hostApi.discardRun(runId)),
    'follow up': (runId) =>
      this.#world.callHost({ operation: 'follow up', runId }, (hostApi) => hostApi.followUpRun(runId)),
    comment: (runId, size) => this.#comment(runId, size),
    'toggle the pull request': (runId, size) => {
      const url = this.#world.disk.run(runId)?.prUrl
      if (url !== undefined) this.#world.codehost.togglePull(url, size > 0.5)
    },
    'break the connection': (runId, size) =>
      this.#causeFault(runId, (worker) => worker.connection?.break(size, size, 20, 20)),
    'crash the worker': (runId, size) =>
      this.#causeFault(runId, (worker) => {
        worker.crash(false)
        this.#world.time.in(size * WORKER_DOWNTIME_MS_MAX, () => worker.switchOn())
      }),
    'crash the host': (runId, size) =>
      this.#causeFault(runId, () => {
        const { host } = this.#world
        const downtimeMs = size ** 2 * HOST_DOWNTIME_MS_MAX
        const kill = () => host.crash(downtimeMs)
        if (size >= 0.5 && size < RELEASED_AFTER_CRASH_MAX)
          this.#world.time.in(downtimeMs + size * HOST_START_MS_MAX, () => this.#actions.release(runId, size))
        // The host crashes right after its next commit, or at once.
        if (size < 0.5) host.crashAtCommit(1, 'after flush', kill)
        else kill()
      }),
    'pause the host': (runId, size) =>
      this.#causeFault(runId, () => {
        const { host, time, view } = this.#world
        view.isDisturbed = true
        const { process } = host
        if (process !== undefined)
          process.pausedUntil = Math.max(process.pausedUntil, time.now + HOST_PAUSE_MS * (1 + size))
      }),
  }

  /** Causes no more faults once everything must settle. */
  #causeFault(runId: string, cause: (worker: SimWorker) => void): void {
    const { disk, plan, time, workers } = this.#world
    const { workerId } = disk.run(runId)?.sandbox ?? {}
    const worker = [...workers.values()].find((each) => each.workerId === workerId)
    if (worker?.isOn === true && time.now < plan.faultsEndMs - WORKER_DOWNTIME_MS_MAX) cause(worker)
  }

  #attach(runId: string, size: number): void {
    const world = this.#world
    if (this.#openViewers.length >= VIEWERS_MAX) return
    world.callHost({ operation: 'attach', runId }, (hostApi) => {
      const viewer = new TerminalViewer({
        runId,
        person: this.#visit.id,
        now: () => world.time.now,
        framesMax: size > 0.9 ? 1 + Math.floor((size - 0.9) * 100) : Number.POSITIVE_INFINITY,
        onScreen: (again) => world.countOutcome(again ? 'screens redrawn' : 'screens shown'),
      })
      this.#viewers.push(viewer)
      world.view.viewers.add(viewer)
      viewer.receiver = hostApi.attachView(runId, viewer)
      if (size > 0.1) viewer.receiver.onResize(80, 24)
      return yes(undefined)
    })
  }

  /** Sometimes somebody else also pushes to the branch. */
  #comment(runId: string, size: number): void {
    const { codehost, disk } = this.#world
    const url = disk.run(runId)?.prUrl
    if (url === undefined) return
    codehost.comment(url, 'please do it otherwise')
    if (size > 0.5) codehost.push(url, codehost.headIndex(url), this.#visit.id)
  }

  #nextInput(): string {
    this.#inputCount += 1
    return `${this.#visit.id}:${this.#inputCount} `
  }

  get #openViewers(): readonly TerminalViewer[] {
    return this.#viewers.filter(({ isOpen }) => isOpen)
  }

  #withViewer(size: number, act: (viewer: TerminalViewer) => void): void {
    const viewer = this.#openViewers[Math.floor(size * this.#openViewers.length)]
    this.#world.host.callApi(() => {
      if (viewer?.isOpen === true) act(viewer)
    })
  }
}
