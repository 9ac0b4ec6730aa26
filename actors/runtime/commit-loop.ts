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
import type { Life } from './live-actor.ts'
import type { RecordLayout } from './snapshot-codec.ts'
import type { Effect } from './transition-output.ts'

/** Somebody who has something of his own to write with each cut. */
export interface CutGuest {
  /** Called when a cut is taken: what is to be written with it, and what to do once that is on disk. */
  join(): CutShare | undefined
}

export interface CutShare {
  readonly writes: readonly Write[]
  /** On disk now. Called before the cut's effects run. */
  landed(): void
}

export interface CommitPorts {
  readonly clock: Clock
  readonly ledger: Pick<Ledger, 'commit'>
  readonly log: Log
  readonly run: (effect: Effect) => void
  readonly guests: readonly CutGuest[]
  /** The last moment to tell lives something that is still part of this cut. */
  readonly beforeCut: () => void
  readonly cutTaken: () => void
  /** Memory is ahead of a disk that takes no more: nothing may be acknowledged from now on. */
  readonly broken: (reason: string) => void
}

export class CommitLoop {
  readonly #ports: CommitPorts
  #dirty = new Set<Life>()
  #outbox: Effect[] = []
  #waking = false
  /** Somebody wants a cut, be it only a guest. */
  #wanted = false
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
    this.#wanted = true
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
    // From here on: what is decided right before the cut is part of it, and must not ask for another one beside it.
    this.#committing = true
    this.#ports.beforeCut()
    if (this.#halted) return this.#rest()
    this.#wanted = false
    const dirty = this.#dirty
    const effects = this.#outbox
    this.#dirty = new Set()
    this.#outbox = []
    this.#ports.cutTaken()
    const shares = await this.#commit(dirty)
    if (shares !== undefined) this.#follow(shares, effects)
    this.#rest()
  }

  /** What is true now that the cut is on disk. */
  #follow(shares: readonly CutShare[], effects: readonly Effect[]): void {
    for (const share of shares) this.#land(share)
    for (const effect of effects) {
      if (this.#halted) return
      this.#do(effect)
    }
  }

  #rest(): void {
    this.#committing = false
    // Whoever the effects answered gets to ask again first: the next cut then holds all of them.
    if (this.#wanted || this.#dirty.size > 0 || this.#outbox.length > 0) this.wake()
    if (!this.#waking) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Answers what the guests wrote with it; undefined when it is not on disk, and nothing may follow from it. */
  async #commit(dirty: Iterable<Life>): Promise<readonly CutShare[] | undefined> {
    const shares: CutShare[] = []
    const lives: Life[] = []
    const states: Life['good'][] = []
    try {
      const writes: Write[] = []
      for (const life of dirty) {
        if (life.kind.layout === undefined) continue
        writesOf(life, life.kind.layout, writes)
        lives.push(life)
        states.push(life.good)
      }
      // Behind the lives: a run that has just ended may have been changed since, and that is the last word on it.
      for (const guest of this.#ports.guests) {
        const share = guest.join()
        if (share === undefined) continue
        shares.push(share)
        for (const write of share.writes) writes.push(write)
      }
      if (writes.length > 0) await this.#ports.ledger.commit(writes)
    } catch (error) {
      this.#ports.broken(isNativeError(error) ? error.message : String(error))
      return undefined
    }
    for (let at = 0; at < lives.length; at++) (lives[at] as Life).durable = states[at]
    return this.#halted ? undefined : shares
  }

  #land(share: CutShare): void {
    try {
      share.landed()
    } catch (error) {
      this.#ports.log.error({ err: error }, 'what was written could not be told')
    }
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

function writesOf(life: Life, layout: RecordLayout, writes: Write[]): void {
  const { kind, key, erased, good, durable, deadlines } = life
  const { split } = kind
  // Born and over within one cut: there is nothing of it on disk.
  if (!erased || durable !== undefined) {
    const record = erased ? null : layout.encode(good, deadlines, split?.keep(good.context))
    writes.push({ table: 'life', kind: kind.name, key, record })
  }
  if (split !== undefined) for (const row of split.rows(key, good.context, durable?.context)) writes.push(row)
}
