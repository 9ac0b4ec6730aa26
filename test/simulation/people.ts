/**
 * The people of a plan, and what they do: each at one run that has ended, through the host's front desk.
 *
 * Nobody knows what the others do, and nobody waits until something is allowed: what is refused is part of the story.
 */
import { yes } from '../../core/result.ts'
import { isTerminal } from './laws/law.ts'
import { CALM } from './plan.ts'
import type { Deed, Doing, Visit } from './planned-visits.ts'
import { LEAVE } from './sandboxes.ts'
import { Seat } from './terminal-viewers.ts'
import type { SimWorker } from './worker.ts'
import type { World } from './world.ts'

/** How long what was killed stays down, at most. */
const DOWN_MS_MAX = 100_000
/** Long enough for what should have been told meanwhile to be missed, too short for the line to be given up. */
const NAP_MS = 25_000
const MOSTLY = 0.8
/** Terminals that one person keeps open. */
const SEATS_MAX = 3

export function receive(world: World): void {
  for (const visit of world.plan.visits) {
    const guest = new Guest(world, visit)
    for (const deed of visit.deeds) world.time.at(deed.at, () => guest.does(deed))
  }
}

class Guest {
  readonly #world: World
  readonly #visit: Visit
  readonly #seats: Seat[] = []
  #runId: string | undefined
  #typed = 0

  constructor(world: World, visit: Visit) {
    this.#world = world
    this.#visit = visit
  }

  does(deed: Deed): void {
    if (this.#open.length === 0 && !this.#isWorthIt(this.#runId)) this.#runId = this.#chosen()
    if (this.#runId === undefined) return
    this.#world.note(`${this.#visit.id} would ${deed.does} (${this.#runId})`)
    this.#deeds[deed.does](this.#runId, deed.size)
  }

  /** Mostly one that there is something to be seen of, or to be followed up. */
  #chosen(): string | undefined {
    const { disk } = this.#world
    const ended = [...disk.runs.keys()].sort().filter((runId) => isTerminal(disk.run(runId)))
    const seen = ended.filter((runId) => this.#isWorthIt(runId))
    const able = seen.length > 0 && (this.#visit.target * 10) % 1 < MOSTLY ? seen : ended
    return able[Math.floor(this.#visit.target * able.length)]
  }

  #isWorthIt(runId: string | undefined): boolean {
    const { sandbox, agentSessionId, prUrl } = { sandbox: undefined, ...this.#world.disk.run(runId ?? '') }
    return sandbox?.id !== undefined && agentSessionId !== undefined && prUrl !== undefined
  }

  readonly #deeds: Readonly<Record<Doing, (runId: string, size: number) => void>> = {
    resume: (runId) => this.#world.ask({ what: 'resume', runId }, (hostApi) => hostApi.resumeRun(runId)),
    attach: (runId, size) => this.#sits(runId, size),
    type: (_, size) => this.#at(size, (seat) => seat.line?.onInput(this.#word())),
    resize: (_, size) =>
      this.#at(size, (seat) => seat.line?.onResize(20 + Math.floor(size * 200), 10 + Math.floor(size * 50))),
    'leave the session': (_, size) => this.#at(size, (seat) => seat.line?.onInput(LEAVE)),
    detach: (_, size) => this.#at(size, (seat) => seat.leave()),
    release: (runId) => this.#world.ask({ what: 'release', runId }, (hostApi) => hostApi.releaseRun(runId)),
    discard: (runId) => this.#world.ask({ what: 'discard', runId }, (hostApi) => hostApi.discardRun(runId)),
    'follow up': (runId) =>
      this.#world.ask({ what: 'follow up', runId }, (hostApi) => hostApi.followUpRun(runId)),
    comment: (runId, size) => this.#comments(runId, size),
    'turn the pull request': (runId, size) => {
      const url = this.#world.disk.run(runId)?.prUrl
      if (url !== undefined) this.#world.codehost.turn(url, size > 0.5)
    },
    'break the line': (runId, size) =>
      this.#unlucky(runId, (worker) => worker.wire?.break(size, size, 20, 20)),
    'kill the worker': (runId, size) =>
      this.#unlucky(runId, (worker) => {
        worker.crash(false)
        this.#world.time.in(size * DOWN_MS_MAX, () => worker.switchOn())
      }),
    'kill the host': (runId, size) =>
      this.#unlucky(runId, () => {
        const { host } = this.#world
        const kill = () => host.crash(size ** 2 * DOWN_MS_MAX)
        // As soon as the next thing that is done is on disk, or at once.
        if (size < 0.5) host.crashAtCommit(1, 'after flush', kill)
        else kill()
      }),
    'put the host to sleep': (runId, size) =>
      this.#unlucky(runId, () => {
        const { host, time, view } = this.#world
        view.disturbed = true
        const { process } = host
        if (process !== undefined)
          process.pausedUntil = Math.max(process.pausedUntil, time.now + NAP_MS * (1 + size))
      }),
  }

  /** Nothing of that sort happens any more once everything is to come to rest. */
  #unlucky(runId: string, strike: (worker: SimWorker) => void): void {
    const { disk, time, workers } = this.#world
    const { workerId } = disk.run(runId)?.sandbox ?? {}
    const worker = [...workers.values()].find((one) => one.workerId === workerId)
    if (worker?.isOn === true && time.now < CALM - DOWN_MS_MAX) strike(worker)
  }

  #sits(runId: string, size: number): void {
    const world = this.#world
    if (this.#open.length >= SEATS_MAX) return
    world.ask({ what: 'attach', runId }, (hostApi) => {
      const seat = new Seat({
        runId,
        person: this.#visit.id,
        now: () => world.time.now,
        takes: size > 0.9 ? 1 + Math.floor((size - 0.9) * 100) : Number.POSITIVE_INFINITY,
        onPicture: (again) => world.deed(again ? 'terminals shown again' : 'terminals shown'),
      })
      this.#seats.push(seat)
      world.view.seats.add(seat)
      seat.line = hostApi.attachView(runId, seat)
      if (size > 0.1) seat.line.onResize(80, 24)
      return yes(undefined)
    })
  }

  /** Somebody else pushes to the branch, now and then. */
  #comments(runId: string, size: number): void {
    const { codehost, disk } = this.#world
    const url = disk.run(runId)?.prUrl
    if (url === undefined) return
    codehost.say(url, 'please do it otherwise')
    if (size > 0.5) codehost.push(url, codehost.headOf(url), this.#visit.id)
  }

  #word(): string {
    this.#typed += 1
    return `${this.#visit.id}:${this.#typed} `
  }

  get #open(): readonly Seat[] {
    return this.#seats.filter(({ isOpen }) => isOpen)
  }

  #at(size: number, act: (seat: Seat) => void): void {
    const seat = this.#open[Math.floor(size * this.#open.length)]
    this.#world.host.visit(() => {
      if (seat?.isOpen === true) act(seat)
    })
  }
}
