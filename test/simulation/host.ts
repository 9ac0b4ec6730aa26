/**
 * The host's machine: it starts a whole host, kills it, starts it again. What it runs is the product, built by the
 * product's own builder out of this world's clock, disk, tracker and door.
 */

import type { WorkerReceiver, WorkerSender } from '../../core/connection-ports.ts'
import type { HostApi } from '../../actors/api/host-api.ts'
import { createHost, type Host, type HostDependencies } from '../../actors/root/create-host.ts'
import type { Log, Meters, Tracker } from '../../core/ports.ts'
import type { PullRequestApi } from '../../core/provider-ports.ts'
import { yes } from '../../core/result.ts'
import { renderConfig } from '../../core/settings/change.ts'
import { readConfig } from '../../core/settings/read.ts'
import type { CompletedConfig } from '../../protocol/config.ts'
import { noNeighbours } from '../support/no-providers.ts'
import type { Random } from '../support/random.ts'
import type { Batch, Disk } from './disk.ts'
import type { CommitPoint } from './plan.ts'
import { BROKEN_DISK, type Drive, SimStore } from './store.ts'
import { type Machine, type Process, ProcessClock, type Timeline } from './timeline.ts'
import { REVIEW, STARTED } from './tracker.ts'

/** Nobody but a sandbox ever gets it. */
export const SECRET = 'sk-never-to-be-seen-0123456789'

export const CONFIG = renderConfig({
  tracker: {
    driver: 'local',
    path: '/tickets',
    pollSeconds: 30,
    startedState: STARTED,
    reviewState: REVIEW,
  },
  codehost: { driver: 'local', path: '/code' },
  agent: { agentAApiKey: SECRET },
  repos: { web: { remote: 'o/web' } },
  worker: { local: false },
})

export interface HostWatch {
  booted(process: Process): void
  /** The doors are open. */
  serving(process: Process): void
  ended(process: Process, how: string): void
  asked(batch: Batch): void
  landing(batch: Batch): void
  landed(batch: Batch): void
  /** Something that the product itself takes for a bug. */
  complained(what: string, fields: object): void
  said(level: string, fields: object, message: string): void
}

export interface HostMachineParts {
  readonly time: Timeline
  readonly machine: Machine
  readonly disk: Disk
  readonly drive: Drive
  readonly random: Random
  readonly trackerFor: (process: Process) => Tracker
  readonly pullsFor: (process: Process) => PullRequestApi
  readonly watch: HostWatch
}

interface Life {
  readonly process: Process
  readonly store: SimStore
  readonly host: Host
  hostApi: HostApi | undefined
}

/** Figures that only a bug raises. */
export const HURT = new Set(['actor_crashes_total', 'invariant_violations_total'])
const { completed, text } = configured()

export class HostMachine {
  /** When its wall clock did last. */
  jumpedAt = Number.NEGATIVE_INFINITY
  readonly #parts: HostMachineParts
  #life: Life | undefined
  #batches = 0
  #lives = 0
  #armed: { at: number; readonly point: CommitPoint; readonly then: () => void } | undefined
  #restartAt: number | undefined

  constructor(parts: HostMachineParts) {
    this.#parts = parts
  }

  get process(): Process | undefined {
    return this.#life?.process
  }

  /** How much of each kind it holds in memory. */
  get census(): Readonly<Record<string, number>> {
    return this.#life?.host.countInMemory() ?? {}
  }

  /** While the doors are open. */
  get hostApi(): HostApi | undefined {
    return this.#life?.hostApi
  }

  boot(): void {
    if (this.#life !== undefined) return
    this.#lives += 1
    const { time, watch } = this.#parts
    const process: Process = { name: `host ${this.#lives}`, dead: false, pausedUntil: 0, ends: [] }
    time.in(
      0,
      () => {
        if (this.#life !== undefined) return
        watch.booted(process)
        const life = this.#live(process)
        this.#life = life
        life.host.start()
      },
      process,
    )
  }

  /** It is gone at once, between two instructions. */
  crash(downMs: number, how = 'crash'): void {
    const life = this.#life
    if (life === undefined) return
    this.#life = undefined
    life.process.dead = true
    this.#armed = undefined
    life.store.crash()
    this.#parts.watch.ended(life.process, how)
    this.#bootIn(downMs)
  }

  /** As a signal would. */
  stop(downMs: number): void {
    const life = this.#life
    if (life === undefined) return
    this.#restartAt = downMs
    this.#parts.time.in(0, () => life.host.stop('asked to'), life.process)
  }

  /** At the `count`th commit from now. */
  crashAtCommit(count: number, point: CommitPoint, then: () => void): void {
    if (this.#life !== undefined) this.#armed = { at: this.#batches + count, point, then }
  }

  disarm(): void {
    this.#armed = undefined
  }

  /** Its wall clock jumps. */
  jump(ms: number): void {
    this.jumpedAt = this.#parts.time.now
    this.#parts.machine.wallOffset += ms
  }

  driveChanged(): void {
    this.#life?.store.look()
  }

  /** Does something in the host's own time, as a door does. */
  visit(run: (hostApi: HostApi) => void): void {
    const life = this.#life
    if (life === undefined) return
    this.#parts.time.in(0, () => life.hostApi !== undefined && run(life.hostApi), life.process)
  }

  /** Somebody calls: answers with the process that took the call, and the line if it is let in. */
  call(link: WorkerSender): { host: Process; end: WorkerReceiver | undefined } | undefined {
    const life = this.#life
    if (life?.hostApi === undefined || life.process.pausedUntil > this.#parts.time.now) return undefined
    const answer = life.hostApi.connectWorker(link)
    return { host: life.process, end: answer.ok ? answer.value : undefined }
  }

  #bootIn(ms: number): void {
    this.#parts.time.in(ms, () => this.boot())
  }

  #live(process: Process): Life {
    const { time, machine, disk, drive, random, watch, trackerFor, pullsFor } = this.#parts
    const clock = new ProcessClock(time, process, machine)
    const store = new SimStore({
      time,
      process,
      disk,
      drive,
      random,
      nextNumber: () => {
        this.#batches += 1
        return this.#batches
      },
      watch: {
        asked: (batch) => {
          watch.asked(batch)
          this.#reached(batch, 'before flush')
        },
        landing: (batch) => watch.landing(batch),
        landed: (batch) => {
          watch.landed(batch)
          this.#reached(batch, 'after flush')
        },
      },
    })
    const pulls = pullsFor(process)
    const parts: HostDependencies & { tracker: () => Tracker } = {
      clock,
      random: { bytes: (count) => bytesOf(random, count), fraction: () => random.fraction() },
      log: this.#log(process),
      meters: this.#meters(process),
      store,
      configuration: completed,
      configText: text,
      health: { ok: true, version: '0.1.0', sandboxProvider: 'bwrap' },
      tracker: () => trackerFor(process),
      ...noNeighbours,
      pulls: () => yes(pulls),
      openListeners: async (hostApi) => {
        if (process.dead) return new Promise(() => {})
        life.hostApi = hostApi
        watch.serving(process)
        return yes({
          close: async () => {
            life.hostApi = undefined
          },
        })
      },
      finish: (exitCode, reason) => this.#finished(life, exitCode, reason),
    }
    const life: Life = { process, store, host: createHost(parts), hostApi: undefined }
    return life
  }

  #finished(life: Life, exitCode: number, reason: string): void {
    if (life.process.dead) return
    const { time, watch } = this.#parts
    watch.said('info', { exitCode }, `the host ends: ${reason}`)
    if (exitCode !== 0 && !reason.includes(BROKEN_DISK))
      watch.complained(`the host ended with ${exitCode}: ${reason}`, {})
    void life.store.close()
    time.in(
      1,
      () => {
        if (life.process.dead) return
        life.process.dead = true
        if (this.#life === life) this.#life = undefined
        watch.ended(life.process, `exit ${exitCode}`)
        this.#bootIn(this.#restartAt ?? 1_000)
        this.#restartAt = undefined
      },
      life.process,
    )
  }

  #reached({ number }: Batch, point: CommitPoint): void {
    if (this.#armed === undefined || this.#armed.point !== point || number < this.#armed.at) return
    const { then } = this.#armed
    this.#armed = undefined
    then()
  }

  #log(process: Process): Log {
    const say = (level: string) => (fields: object, message: string) => {
      if (process.dead) return
      this.#parts.watch.said(level, fields, message)
      if (level === 'error' && FAULTY.has(message)) this.#parts.watch.complained(message, fields)
    }
    return { debug: () => {}, info: say('info'), warn: say('warn'), error: say('error') }
  }

  #meters(process: Process): Meters {
    return {
      count: (name, labels) => {
        if (HURT.has(name) && !process.dead) this.#parts.watch.complained(name, labels ?? {})
      },
      gauge: () => {},
      observe: () => {},
    }
  }
}

/** What the kit says when something is wrong with the product and not with the world. */
export const FAULTY = new Set([
  'an effect failed',
  'an actor threw while it was spawned',
  'actor not spawned: one of this kind and key exists',
  'an event could not be delivered',
  'a commit participant threw after its writes were on disk',
  'an observer of a state change threw',
  'the step before a commit threw',
  'a push could not be delivered',
])

export function bytesOf(random: Random, count: number): Uint8Array {
  return Uint8Array.from({ length: count }, () => random.below(256))
}

function configured(): { readonly completed: CompletedConfig; readonly text: string } {
  const read = readConfig(CONFIG)
  if (!read.ok) throw new Error(read.refusal.message)
  return { completed: read.value, text: CONFIG }
}
