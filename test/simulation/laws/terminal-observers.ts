/**
 * Track which sandbox has viewers, from the frames between host and workers: once as a worker receives them, once
 * as the host sends them.
 *
 * These classes know frames only, so they cannot repeat a mistake of the product.
 */
import type { HostFrame, WorkerFrame } from '../../../protocol/frames.ts'
import type { SimConnection } from '../sim-connection.ts'
import type { LawView } from './law.ts'

export const bootName = (worker: string, runId: string): string => `${worker} ${runId}`

/** The viewers on each worker, according to the frames that it received and sent. */
export class ViewerPresence {
  readonly #connected = new Set<string>()
  readonly #open = new Map<string, Map<string, string>>()
  readonly #since = new Map<string, { readonly at: number; readonly how: 'asked' | 'left' | 'adrift' }>()

  has(worker: string, runId: string): boolean {
    for (const openRunId of this.#open.get(worker)?.values() ?? []) if (openRunId === runId) return true
    return false
  }

  count(worker: string): number {
    return this.#open.get(worker)?.size ?? 0
  }

  since(worker: string, runId: string) {
    return this.#since.get(bootName(worker, runId))
  }

  onBootRequested(worker: string, runId: string, at: number): void {
    this.#since.set(bootName(worker, runId), { at, how: 'asked' })
  }

  onWorkerReceives(worker: string, frame: HostFrame, at: number): void {
    if (frame.type === 'registered') this.#connected.add(worker)
    else if (frame.type === 'sandbox-boot') this.onBootRequested(worker, frame.runId, at)
    else if (frame.type === 'attach-open') this.#openOn(worker).set(frame.sessionId, frame.runId)
    else if (frame.type === 'attach-close') this.#onViewClosed(worker, frame.sessionId, at)
  }

  onWorkerSends(worker: string, frame: WorkerFrame, at: number): void {
    if (frame.type === 'attach-error' || frame.type === 'attach-exit')
      this.#onViewClosed(worker, frame.sessionId, at)
  }

  /** A connection that breaks again, or never registered, grants no additional time. */
  onDisconnected(worker: string, runIds: readonly string[], at: number): void {
    if (!this.#connected.delete(worker)) return
    for (const runId of runIds) {
      const isAdrift = this.since(worker, runId)?.how === 'adrift' && !this.has(worker, runId)
      if (!isAdrift) this.#since.set(bootName(worker, runId), { at, how: 'adrift' })
    }
    this.#open.delete(worker)
  }

  #onViewClosed(worker: string, sessionId: string, at: number): void {
    const runId = this.#open.get(worker)?.get(sessionId)
    this.#open.get(worker)?.delete(sessionId)
    if (runId !== undefined) this.#since.set(bootName(worker, runId), { at, how: 'left' })
  }

  #openOn(worker: string): Map<string, string> {
    const open = this.#open.get(worker) ?? new Map<string, string>()
    this.#open.set(worker, open)
    return open
  }
}

/** A sandbox that the host booted, according to its frames; empty after a restart. */
export interface HostBoot {
  readonly runId: string
  readonly workerId: string
  readonly requestId: string
  readonly requestedAt: number
  isReady: boolean
  /** Since when the sandbox has no viewer while its worker is connected. */
  unviewedSince: number
  /** Since when its worker is away, as far as the host can know. */
  workerAwaySince: number | undefined
}

export class HostBoots {
  readonly boots = new Map<string, HostBoot>()
  readonly #views = new Map<string, string>()

  onHostStarting(): void {
    this.boots.clear()
  }

  onHostSends(view: LawView, connection: SimConnection, frame: HostFrame): void {
    const workerId = view.registeredAs(connection) ?? ''
    const at = view.now()
    if (frame.type === 'sandbox-boot') {
      const { runId, requestId } = frame
      this.boots.set(runId, {
        runId,
        requestId,
        workerId,
        requestedAt: at,
        isReady: false,
        unviewedSince: at,
        workerAwaySince: undefined,
      })
    }
    if (frame.type === 'sandbox-release') this.boots.delete(frame.runId)
    if (frame.type === 'attach-open') this.#views.set(frame.sessionId, frame.runId)
    if (frame.type === 'registered') this.#restartIdleTime(frame.workerId, at)
    if (frame.type === 'revoked') this.onRevoked(workerId)
  }

  onHostReceives(view: LawView, connection: SimConnection, frame: WorkerFrame | undefined): void {
    if (frame?.type === 'attach-exit') this.boots.delete(this.#views.get(frame.sessionId) ?? '')
    if (frame?.type !== 'sandbox-ready') return
    for (const boot of this.boots.values()) {
      if (boot.requestId !== frame.requestId || boot.workerId !== view.registeredAs(connection)) continue
      boot.isReady = true
      boot.unviewedSince = view.now()
    }
  }

  /** A person gave the sandbox up. A worker that is away receives `sandbox-release` when it returns. */
  onReleased(view: LawView, runId: string): void {
    const boot = this.boots.get(runId)
    if (boot !== undefined && view.currentConnection(boot.workerId)?.hostOpen !== true)
      this.boots.delete(runId)
  }

  #restartIdleTime(workerId: string, at: number): void {
    for (const boot of this.boots.values()) if (boot.workerId === workerId) boot.unviewedSince = at
  }

  /** The host gives up the sandboxes of a worker at once, also while a full disk delays what the worker hears. */
  onRevoked(workerId: string): void {
    for (const boot of [...this.boots.values()]) if (boot.workerId === workerId) this.boots.delete(boot.runId)
  }
}
