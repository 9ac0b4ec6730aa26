/**
 * The leases of this worker: which it claims, how long each lives, and what the host's word makes of them.
 *
 * A lease is claimed from its dispatch until the host has its completion. One that is lost, or whose time runs out by
 * the worker's own clock, is stopped in the same moment, before anything is written. Which of them the host has ended it
 * knows; one that this worker gives up on its own is claimed until nothing of it runs, or the host would queue the run
 * again and another worker begin it beside processes that are still dying.
 */
import type { StopOrder } from '../../core/daemon/ports.ts'
import type { GrantedLease, Job, RunLease } from '../../protocol/frames.ts'
import { CANCEL_ANSWER_MS } from '../../protocol/limits.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import { EXECUTION } from './daemon.names.ts'
import type { ExecutionStatus } from './daemon-dependencies.ts'
import type { ExecutionContext, ExecutionEffect, ExecutionInput } from './execution.machine.ts'
import type { Lives } from './execution-lookup.ts'
import type { Workshop } from './execution-runner.ts'
import type { Post } from './frame-outbox.ts'
import type { Line } from './host-connection.ts'
import type { Reports } from './reports.ts'
import type { Timers } from './timers.ts'

export interface ExecutionPorts {
  readonly system: ActorSystem
  readonly timers: Timers
  readonly line: Line
  readonly lives: Lives
  readonly post: Post
  readonly reports: Reports
  readonly workshop: Workshop
  /** How much there is may have changed. */
  readonly changed: () => void
}

/** The part of a lease's time that its worker uses. */
const OWN_SHARE = 0.9
/** An agent that was asked to end, and does not, is killed in time for the host to hear how it ended. */
const CANCEL_KILL_MS = CANCEL_ANSWER_MS * (2 / 3)
/** How long a run waits for an older execution of it to be gone. */
const OLDER_GONE_MS_MAX = 120_000
/** So long after it was given up a lease is claimed at most: what can't be killed must not keep its run from others. */
const LEAVING_MS_MAX = 60_000
/** Leases that are over, for dispatches that come again. */
const OVER_MAX = 1_000

/** When a lease runs out: on the monotonic clock, and for people. */
interface Term {
  until: number
  expiresAt: string
}

export class Executions {
  readonly #ports: ExecutionPorts
  readonly #terms = new Map<string, Term>()
  /** By lease, until when it is still claimed though this worker has given it up. */
  readonly #leaving = new Map<string, number>()
  readonly #over = new Set<string>()

  constructor(ports: ExecutionPorts) {
    this.#ports = ports
  }

  do(effect: ExecutionEffect): void {
    const { reports, workshop } = this.#ports
    switch (effect.type) {
      case 'execution.accept':
        this.#accept(effect.leaseId)
        return
      case 'execution.begin':
        workshop.begin(effect.leaseId)
        return
      case 'execution.work':
        workshop.work(effect.leaseId)
        return
      case 'execution.finish':
        workshop.finish(effect.leaseId, effect.worked)
        return
      case 'execution.salvage':
        void workshop.salvage(effect.leaseId)
        return
      case 'execution.report':
        reports.complete(effect.leaseId)
    }
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  /** What this worker believes to own, that of which something runs first. */
  claims(): RunLease[] {
    const isMine = (leaseId: string, state: string) => state !== 'abandoned' || this.#isLeaving(leaseId)
    const mine = this.#ports.lives.all().filter(({ fields, state }) => isMine(fields.leaseId, state))
    mine.sort((a, b) => Number(a.state === 'finished') - Number(b.state === 'finished'))
    return mine.map(({ fields: { leaseId, runId, expiresAt } }) => ({
      id: leaseId,
      runId,
      expiresAt: this.#terms.get(leaseId)?.expiresAt ?? expiresAt,
      lastSeq: this.#ports.post.lastSeq(leaseId),
    }))
  }

  #isLeaving(leaseId: string): boolean {
    return (this.#leaving.get(leaseId) ?? 0) > this.#ports.timers.now()
  }

  /** What there is of this run is still to be collected, or to be salvaged. */
  claimsRun(runId: string): boolean {
    return this.#ports.lives.all().some(({ fields, state }) => fields.runId === runId && state !== 'finished')
  }

  status(): ExecutionStatus[] {
    return this.#ports.lives
      .all()
      .map(({ fields: { leaseId, runId }, state }) => ({ leaseId, runId, phase: state }))
  }

  /** `running`: something runs, or is not settled yet. `untold`: settled, and the host has not said that it knows. */
  count(): { readonly running: number; readonly untold: number } {
    const lives = this.#ports.lives.all()
    const unsettled = lives.filter(({ state }) => state !== 'finished').map(({ fields }) => fields.leaseId)
    const running = new Set([...unsettled, ...this.#ports.workshop.occupied.keys()]).size
    return { running, untold: lives.length - unsettled.length }
  }

  /** Slots taken by others than this run. */
  slotsBeside(runId: string): number {
    const { lives, workshop } = this.#ports
    const unsettled = lives.all().filter(({ state }) => state !== 'finished')
    const taken = new Map(unsettled.map(({ fields }) => [fields.leaseId, fields.runId]))
    return [...new Map([...taken, ...workshop.occupied]).values()].filter((run) => run !== runId).length
  }

  /** `over`: it was here once. */
  standing(leaseId: string): 'held' | 'over' | undefined {
    const state = this.#ports.lives.stateOf(leaseId)
    if (state === undefined) return this.#over.has(leaseId) ? 'over' : undefined
    return state === 'abandoned' ? 'over' : 'held'
  }

  // ---- what the host says ------------------------------------------------------------------------------------------

  /** Answers whether it was taken; then its acceptance is said once it is on disk. */
  take(lease: GrantedLease, job: Job, workerId: string, arrivedAt: number): boolean {
    const { system, lives, post, reports, workshop } = this.#ports
    const { id, runId, expiresAt, remainingMs } = lease
    // The newer lease of a run fences the older one off.
    for (const { fields } of lives.all())
      if (fields.runId === runId) this.lose(fields.leaseId, 'a newer lease of the same run was granted')
    workshop.bring(id, job)
    reports.open(id, job.repo.remote)
    const input: ExecutionInput = {
      leaseId: id,
      runId,
      workerId,
      expiresAt,
      retentionHours: job.retentionHours,
    }
    if (!system.spawn(EXECUTION, id, input).ok) {
      workshop.forget(id)
      reports.close(id)
      return false
    }
    post.begins(id)
    this.renew(id, expiresAt, arrivedAt, remainingMs)
    return true
  }

  /** The host asks again. What is not on disk yet is said when it is. */
  acceptAgain(leaseId: string): void {
    const { system, line } = this.#ports
    if (system.peekDurable(EXECUTION, leaseId) !== undefined)
      line.send({ type: 'dispatch-accepted', leaseId })
  }

  /** @param since when this worker last gave a sign of life that the host has answered */
  renew(leaseId: string, expiresAt: string, since: number, remainingMs: number): void {
    const state = this.#ports.lives.stateOf(leaseId)
    if (state === undefined || state === 'abandoned') return
    const before = this.#terms.get(leaseId)?.until ?? Number.NEGATIVE_INFINITY
    const until = Math.max(before, since + remainingMs * OWN_SHARE)
    this.#terms.set(leaseId, { until, expiresAt })
    // What is finished does not run out: it is still to be told, and stops nothing.
    if (state !== 'finished' && until > before) this.#ports.timers.at(timerOf(leaseId), 'expiry', until)
  }

  /** It may not be this worker's any more, or never was: then there is nothing to do. */
  lose(leaseId: string, reason: string, how: StopOrder['how'] = 'kill'): void {
    this.#leaving.delete(leaseId)
    this.#ports.lives.tell(leaseId, { type: 'lost', how, reason })
  }

  /** By this worker's own decision: as far as the host knows it is still its own. */
  #giveUp(leaseId: string, reason: string): void {
    const { lives, timers } = this.#ports
    if (lives.stateOf(leaseId) !== 'abandoned') this.#leaving.set(leaseId, timers.now() + LEAVING_MS_MAX)
    lives.tell(leaseId, { type: 'lost', how: 'kill', reason })
  }

  cancel(leaseId: string, reason: string): void {
    this.#ports.lives.tell(leaseId, { type: 'cancel requested', reason })
  }

  acknowledged(leaseId: string): void {
    this.#ports.lives.tell(leaseId, { type: 'acknowledged' })
  }

  /** The host may be ahead of this disk, and took the number of the completion for that of something else. */
  tellAgain(leaseId: string): void {
    const { lives, reports } = this.#ports
    if (lives.stateOf(leaseId) === 'finished') reports.complete(leaseId)
  }

  /** A timer that was set here came due. */
  rang(key: string, name: string): void {
    const { lives, workshop } = this.#ports
    const leaseId = key.slice(TIMER.length)
    if (name === 'expiry') this.#giveUp(leaseId, 'its time ran out without a word of the host')
    else if (name === 'kill') workshop.stop(leaseId, { how: 'kill', reason: 'it did not end when asked' })
    else if (workshop.giveUpWaiting(leaseId))
      lives.tell(leaseId, {
        type: 'could not prepare',
        reason: 'an older execution of this run can not be ended',
      })
  }

  // ---- all of them -------------------------------------------------------------------------------------------------

  /** Not claimed any more. `all`: what is finished, too, for there is nobody left to tell. */
  abandon(how: StopOrder['how'], reason: string, all: boolean): void {
    for (const { fields, state } of this.#ports.lives.all())
      if (all || state !== 'finished') this.lose(fields.leaseId, reason, how)
  }

  /** Not claimed any more once it is gone, so that others do it; but what is out already is told as done. */
  handBack(reason: string): void {
    const { lives } = this.#ports
    for (const { fields, state } of lives.all()) {
      if (state === 'finished') continue
      if (fields.progress.prUrl === undefined) this.#giveUp(fields.leaseId, reason)
      else lives.tell(fields.leaseId, { type: 'stopped', reason })
    }
  }

  /** The daemon ends, and whatever still runs ends with it. */
  letGo(): void {
    this.#leaving.clear()
  }

  /** Killed at once; how far each came is put on disk. */
  kill(reason: string): void {
    const { lives, workshop } = this.#ports
    for (const { fields } of lives.all()) lives.tell(fields.leaseId, { type: 'stopped', reason })
    // Lives hear nothing any more when the disk is broken.
    workshop.killAll(reason)
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  executionIs({ key, before, after, over, restored }: StateChange): void {
    const { post, timers } = this.#ports
    const { stop } = after.context as ExecutionContext
    const stoppedBefore = (before?.context as ExecutionContext | undefined)?.stop
    if (before === undefined) post.open(key, restored)
    // Of one that was brought back nothing runs; what becomes of it is its own affair.
    if (!restored && stop !== null && stop !== stoppedBefore) this.#stop(key, stop)
    if (after.value === 'finished') timers.cancelAll(timerOf(key))
    if (over) this.#isOver(key)
    this.#ports.changed()
  }

  /** At once, whatever the disk does: a full one must not keep a fenced run alive. */
  #stop(leaseId: string, { as, how, reason }: NonNullable<ExecutionContext['stop']>): void {
    const { lives, timers, workshop } = this.#ports
    if (as !== 'cancelled') timers.cancelAll(timerOf(leaseId))
    if (as === 'cancelled' && how === 'interrupt') timers.in(timerOf(leaseId), 'kill', CANCEL_KILL_MS)
    workshop.forget(leaseId)
    const order = { how, reason, ...(as === 'nothing' ? { inVain: true } : {}) }
    if (!workshop.stop(leaseId, order)) lives.tell(leaseId, { type: 'ended', said: null })
  }

  #isOver(leaseId: string): void {
    const { post, reports, timers, workshop } = this.#ports
    workshop.forget(leaseId)
    workshop.stop(leaseId, { how: 'kill', reason: 'the lease is over' })
    timers.cancelAll(timerOf(leaseId))
    reports.close(leaseId)
    post.close(leaseId)
    this.#terms.delete(leaseId)
    this.#leaving.delete(leaseId)
    this.#over.add(leaseId)
    for (const oldest of this.#over) {
      if (this.#over.size <= OVER_MAX) return
      this.#over.delete(oldest)
    }
  }

  #accept(leaseId: string): void {
    const { line, lives, timers, workshop } = this.#ports
    if (lives.stateOf(leaseId) !== 'accepted') return
    line.send({ type: 'dispatch-accepted', leaseId })
    timers.in(timerOf(leaseId), 'older', OLDER_GONE_MS_MAX)
    workshop.queue(leaseId)
  }
}

/** In front of the keys of this room's timers. */
export const TIMER = 'lease '
const timerOf = (leaseId: string): string => `${TIMER}${leaseId}`
