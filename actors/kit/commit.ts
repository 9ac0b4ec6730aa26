/**
 * The commit loop: nothing leaves the house before its cause is on disk.
 *
 * Transitions mark lives dirty and queue effects. At the end of a turn the loop takes a cut of both, writes the
 * dirty lives in one transaction, waits for the sync, and only then runs the cut's effects, in the order in which
 * they were queued. One commit is in flight at a time; what happens meanwhile goes into the next cut, so the size of
 * a transaction follows the load by itself.
 */
import { isNativeError } from 'node:util/types'
import type { Clock, Ledger, Log, Write } from '../../core/ports.ts'
import type { Life } from './life.ts'
import type { RecordLayout } from './records.ts'
import type { Effect } from './tray.ts'

export interface CommitPorts {
  readonly clock: Clock
  readonly ledger: Pick<Ledger, 'commit'>
  readonly log: Log
  readonly run: (effect: Effect) => void
  readonly cutTaken: () => void
  /** Memory is ahead of a disk that takes no more: nothing may be acknowledged from now on. */
  readonly broken: (reason: string) => void
}

export class CommitLoop {
  readonly #ports: CommitPorts
  #dirty = new Set<Life>()
  #outbox: Effect[] = []
  #waking = false
  #committing = false
  #halted = false
  #idle: (() => void)[] = []

  constructor(ports: CommitPorts) {
    this.#ports = ports
  }

  /** To run after the next commit. Only effects of transitions that succeeded come here. */
  queue(effect: Effect): void {
    this.#outbox.push(effect)
  }

  markDirty(life: Life): void {
    this.#dirty.add(life)
  }

  /** There may be something to cut; take it when this turn is over. */
  wake(): void {
    if (this.#waking || this.#committing || this.#halted) return
    this.#waking = true
    this.#ports.clock.endOfTick(() => {
      this.#waking = false
      void this.#cut()
    })
  }

  /** Resolves when nothing is dirty, queued or in flight. Never resolves while the disk is full. */
  async settled(): Promise<void> {
    while (this.#waking || this.#committing) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** Forgets everything that is not on disk; from now on nothing is written and no effect runs. */
  halt(): void {
    this.#halted = true
    this.#dirty.clear()
    this.#outbox = []
  }

  async #cut(): Promise<void> {
    this.#committing = true
    const dirty = this.#dirty
    const effects = this.#outbox
    this.#dirty = new Set()
    this.#outbox = []
    this.#ports.cutTaken()
    const durable = await this.#commit(dirty)
    for (const effect of durable ? effects : []) {
      if (this.#halted) break
      this.#do(effect)
    }
    this.#committing = false
    // Whoever the effects answered gets to ask again first: the next cut then holds all of them.
    if (this.#dirty.size > 0 || this.#outbox.length > 0) this.wake()
    if (!this.#waking) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Answers whether the cut's effects may run. */
  async #commit(dirty: Iterable<Life>): Promise<boolean> {
    const lives: Life[] = []
    const states: Life['good'][] = []
    try {
      const writes: Write[] = []
      for (const life of dirty) {
        if (life.kind.layout === undefined) continue
        writes.push(writeOf(life, life.kind.layout))
        lives.push(life)
        states.push(life.good)
      }
      if (writes.length > 0) await this.#ports.ledger.commit(writes)
    } catch (error) {
      this.#ports.broken(isNativeError(error) ? error.message : String(error))
      return false
    }
    for (let at = 0; at < lives.length; at++) (lives[at] as Life).durable = states[at]
    return !this.#halted
  }

  #do(effect: Effect): void {
    try {
      this.#ports.run(effect)
    } catch (error) {
      // One effect that fails must not keep the others from happening; its state implies it at the next start.
      this.#ports.log.error({ err: error, effect: effect.type }, 'an effect failed')
    }
  }
}

function writeOf({ kind, key, erased, good, deadlines }: Life, layout: RecordLayout): Write {
  return { table: 'life', kind: kind.name, key, record: erased ? null : layout.encode(good, deadlines) }
}
