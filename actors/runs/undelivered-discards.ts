/**
 * UndeliveredDiscards stores requests to discard a sandbox until the worker has received them, which may take days.
 *
 * A connection that has died silently takes frames like any other. The host answers each heartbeat, and a worker gives up
 * a host that it does not hear: a worker whose heartbeats go on for longer has received what was sent before them.
 */
import type { KeyValues, Write } from '../../core/ports/store.ts'
import { WORKER_HEARTBEAT_MS, WORKER_HOST_SILENCE_MS } from '../../protocol/limits.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { WorkerEffect } from '../workers/connection.machine.ts'
import type { WorkersView } from '../workers/module.ts'

export interface UndeliveredDiscard {
  readonly workerId: string
  readonly runId: string
}

interface SentDiscard {
  readonly connection: number
  /** The worker's clock at its first heartbeat on the connection since then. */
  firstBeat: number | undefined
}

const RECEIVED_AFTER_MS = WORKER_HOST_SILENCE_MS + WORKER_HEARTBEAT_MS

const keyOf = ({ workerId, runId }: UndeliveredDiscard): string => `${workerId}/${runId}`

/** Has the worker delete the sandbox of the run, as soon as it is connected. */
export function requestDiscard(
  system: Pick<ActorSystem, 'runAfterCommit'>,
  { registry, undeliveredDiscards }: Pick<WorkersView, 'registry' | 'undeliveredDiscards'>,
  discard: UndeliveredDiscard,
): void {
  if (registry.get(discard.workerId) === undefined) return
  undeliveredDiscards.add(discard)
  const effect: WorkerEffect = { type: 'worker.send discard', ...discard }
  system.runAfterCommit(effect)
}

export class UndeliveredDiscards implements CommitParticipant {
  readonly #keyValues: KeyValues
  readonly #requestCommit: () => void
  /** The keys of all requests, on disk or on their way there, so that an accepted run costs no read; other errands do no harm. */
  readonly #keys = new Set<string>()
  #toWrite = new Map<string, UndeliveredDiscard | null>()
  /** By worker and run, the stored requests that were sent since this start. */
  readonly #sent = new Map<string, Map<string, SentDiscard>>()

  constructor(keyValues: KeyValues, requestCommit: () => void) {
    this.#keyValues = keyValues
    this.#requestCommit = requestCommit
    for (const [key] of keyValues.all('errand')) this.#keys.add(key)
  }

  add(discard: UndeliveredDiscard): void {
    this.#forgetSending(discard)
    this.#keys.add(keyOf(discard))
    this.#toWrite.set(keyOf(discard), discard)
    this.#requestCommit()
  }

  noteSent({ workerId, runId }: UndeliveredDiscard, connection: number): void {
    const sent = this.#sent.get(workerId) ?? new Map<string, SentDiscard>()
    this.#sent.set(workerId, sent.set(runId, { connection, firstBeat: undefined }))
  }

  /** @param sentAt when the worker sent the heartbeat, by its own clock */
  onHeartbeat(workerId: string, connection: number, sentAt: number): void {
    for (const [runId, sent] of this.#sent.get(workerId) ?? []) {
      if (sent.connection !== connection) continue
      sent.firstBeat ??= sentAt
      if (sentAt - sent.firstBeat >= RECEIVED_AFTER_MS) this.#drop({ workerId, runId })
    }
  }

  /** The worker executes the run again: the request must not delete the sandbox of the new execution later. */
  onAccepted(discard: UndeliveredDiscard): void {
    if (this.#keys.has(keyOf(discard))) this.#drop(discard)
  }

  /** Drops all requests for a worker that was revoked. */
  dropWorker(workerId: string): void {
    for (const discard of this.storedFor(workerId)) this.#drop(discard)
    for (const discard of [...this.#toWrite.values()]) if (discard?.workerId === workerId) this.#drop(discard)
  }

  /** Lists the requests for a worker that are on disk and not dropped. */
  storedFor(workerId: string): UndeliveredDiscard[] {
    // `0` is the character after `/`. The cast holds because only this class writes such keys.
    const found = this.#keyValues.all('errand', { after: `${workerId}/`, until: `${workerId}0` })
    return [...found]
      .filter(([key]) => this.#toWrite.get(key) !== null)
      .map(([, discard]) => discard as UndeliveredDiscard)
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const writes = [...this.#toWrite].map(
      ([key, value]): Write => ({ table: 'key-value', collection: 'errand', key, value }),
    )
    this.#toWrite = new Map()
    return { writes, onCommitted: () => {} }
  }

  #drop(discard: UndeliveredDiscard): void {
    this.#forgetSending(discard)
    this.#keys.delete(keyOf(discard))
    this.#toWrite.set(keyOf(discard), null)
    this.#requestCommit()
  }

  #forgetSending({ workerId, runId }: UndeliveredDiscard): void {
    const sent = this.#sent.get(workerId)
    if (sent?.delete(runId) === true && sent.size === 0) this.#sent.delete(workerId)
  }
}
