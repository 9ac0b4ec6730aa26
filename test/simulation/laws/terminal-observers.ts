/**
 * Who looks into which sandbox, as the frames between host and workers say: once as a worker hears it, once as the host
 * has it. Frames are all that these know, so that they can't be wrong in the way in which the product is.
 */
import type { HostFrame, WorkerFrame } from '../../../protocol/frames.ts'
import type { Wire } from '../network.ts'
import type { Sight } from './law.ts'

export const nameOf = (worker: string, runId: string): string => `${worker} ${runId}`

/** Who looks at what on each worker, by the frames that it hears and says. */
export class Onlookers {
  readonly #up = new Set<string>()
  readonly #open = new Map<string, Map<string, string>>()
  readonly #since = new Map<string, { readonly at: number; readonly how: 'asked' | 'left' | 'adrift' }>()

  has(worker: string, runId: string): boolean {
    for (const one of this.#open.get(worker)?.values() ?? []) if (one === runId) return true
    return false
  }

  count(worker: string): number {
    return this.#open.get(worker)?.size ?? 0
  }

  since(worker: string, runId: string) {
    return this.#since.get(nameOf(worker, runId))
  }

  asked(worker: string, runId: string, at: number): void {
    this.#since.set(nameOf(worker, runId), { at, how: 'asked' })
  }

  heard(worker: string, frame: HostFrame, at: number): void {
    if (frame.type === 'registered') this.#up.add(worker)
    else if (frame.type === 'sandbox-boot') this.asked(worker, frame.runId, at)
    else if (frame.type === 'attach-open') this.#openOn(worker).set(frame.sessionId, frame.runId)
    else if (frame.type === 'attach-close') this.#left(worker, frame.sessionId, at)
  }

  said(worker: string, frame: WorkerFrame, at: number): void {
    if (frame.type === 'attach-error' || frame.type === 'attach-exit') this.#left(worker, frame.sessionId, at)
  }

  /** A line that breaks once more gives no more time, nor does one that never came about. */
  lineDown(worker: string, runIds: readonly string[], at: number): void {
    if (!this.#up.delete(worker)) return
    for (const runId of runIds) {
      const isAdrift = this.since(worker, runId)?.how === 'adrift' && !this.has(worker, runId)
      if (!isAdrift) this.#since.set(nameOf(worker, runId), { at, how: 'adrift' })
    }
    this.#open.delete(worker)
  }

  #left(worker: string, sessionId: string, at: number): void {
    const runId = this.#open.get(worker)?.get(sessionId)
    this.#open.get(worker)?.delete(sessionId)
    if (runId !== undefined) this.#since.set(nameOf(worker, runId), { at, how: 'left' })
  }

  #openOn(worker: string): Map<string, string> {
    const open = this.#open.get(worker) ?? new Map<string, string>()
    this.#open.set(worker, open)
    return open
  }
}

/** What the host has booted, as its frames say; nothing after a restart. */
export interface Held {
  readonly runId: string
  readonly workerId: string
  readonly requestId: string
  readonly orderedAt: number
  isReady: boolean
  /** Since when nobody looks at it and its worker is there. */
  idleSince: number
  /** Since when its worker is away, as far as the host can know. */
  awaySince: number | undefined
}

export class Holdings {
  readonly held = new Map<string, Held>()
  readonly #views = new Map<string, string>()

  restarted(): void {
    this.held.clear()
  }

  sent(sight: Sight, wire: Wire, frame: HostFrame): void {
    const workerId = sight.registeredAs(wire) ?? ''
    const at = sight.now()
    if (frame.type === 'sandbox-boot') {
      const { runId, requestId } = frame
      this.held.set(runId, {
        runId,
        requestId,
        workerId,
        orderedAt: at,
        isReady: false,
        idleSince: at,
        awaySince: undefined,
      })
    }
    if (frame.type === 'sandbox-release') this.held.delete(frame.runId)
    if (frame.type === 'attach-open') this.#views.set(frame.sessionId, frame.runId)
    if (frame.type === 'registered') this.#touch(frame.workerId, at)
    if (frame.type === 'revoked') this.#drop(workerId)
  }

  heard(sight: Sight, wire: Wire, frame: WorkerFrame | undefined): void {
    if (frame?.type === 'attach-exit') this.held.delete(this.#views.get(frame.sessionId) ?? '')
    if (frame?.type !== 'sandbox-ready') return
    for (const held of this.held.values()) {
      if (held.requestId !== frame.requestId || held.workerId !== sight.registeredAs(wire)) continue
      held.isReady = true
      held.idleSince = sight.now()
    }
  }

  #touch(workerId: string, at: number): void {
    for (const held of this.held.values()) if (held.workerId === workerId) held.idleSince = at
  }

  #drop(workerId: string): void {
    for (const held of [...this.held.values()]) if (held.workerId === workerId) this.held.delete(held.runId)
  }
}
