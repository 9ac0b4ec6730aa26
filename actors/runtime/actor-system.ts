/**
 * The actor host: brings lives into being, hands them their events, and keeps them alive.
 *
 * A transition either succeeds whole (its new state is good, its effects and mail are taken) or, when it throws,
 * leaves nothing behind but a crash for the supervisor. Mail between lives is delivered within the same tick, one
 * after the other and never on top of each other's stacks, so that a cut sees them all at rest.
 */
import { isNativeError } from 'node:util/types'
import type { AnyMachineSnapshot, EventObject } from 'xstate'
import type { Clock, Ledger, LifeRecord, Log, Meters } from '../../core/ports.ts'
import type { Answer } from '../../core/result.ts'
import { no, yes } from '../../core/result.ts'
import { Nursery } from './actor-factory.ts'
import type { Kind, Outgoing } from './actor-kind.ts'
import { CommitLoop, type CutGuest } from './commit-loop.ts'
import { Counts } from './counter.ts'
import { Deadlines } from './deadlines.ts'
import type { Life } from './live-actor.ts'
import { type Letter, Mailbox } from './mailbox.ts'
import { Registry } from './registry.ts'
import type { RecordLayout } from './snapshot-codec.ts'
import { Supervisor } from './supervisor.ts'
import type { Address, Effect } from './transition-output.ts'

export interface HostPorts {
  readonly clock: Clock
  readonly ledger: Pick<Ledger, 'commit' | 'lives'> & { readonly runs?: Pick<Ledger['runs'], 'get'> }
  readonly log: Log
  readonly meters: Meters
  readonly kinds: readonly Kind[]
  /** Does one effect. Called only when its cause is on disk; doing an effect twice is harmless. */
  readonly effects: (effect: Effect) => void
  /** Those who write something of their own with every cut. */
  readonly guests?: readonly CutGuest[]
  /** The last moment to tell lives something that is still part of the cut about to be taken. */
  readonly beforeCut?: () => void
  /**
   * Told of every good state as it comes about, in the tick of its transition; of the last one with `over`. What is
   * known by this is ahead of the disk, and a function of good states alone.
   */
  readonly watch?: (change: Change) => void
  /** The host can't go on. May be called again while it is being stopped. */
  readonly fatal: (reason: string) => void
}

export interface Change {
  readonly kind: string
  readonly key: string
  /** undefined: born or restored just now. */
  readonly before: AnyMachineSnapshot | undefined
  readonly after: AnyMachineSnapshot
  readonly over: boolean
  readonly restored: boolean
}

export interface RestoreReport {
  readonly restored: number
  /** Records that could not be read. They stay on disk. */
  readonly damaged: readonly string[]
}

/** A deadline as its life gets it: when it was due, and when it came. */
interface DeadlineEvent extends EventObject {
  readonly type: `deadline.${string}`
  readonly name: string
  readonly due: number
  readonly at: number
}

export class ActorHost {
  readonly #ports: HostPorts
  readonly #kinds: ReadonlyMap<string, Kind>
  readonly #registry = new Registry()
  readonly #nursery = new Nursery()
  readonly #supervisor: Supervisor
  readonly #loop: CommitLoop
  readonly #deadlines: Deadlines<Life>
  readonly #mailbox: Mailbox
  readonly #counts = new Counts('actor_transitions_total', 'kind')
  #stopped = false
  #halted = false
  /** Keys under which something lies on disk that has no life: unreadable, or given up. Nobody may be born over it. */
  readonly #damaged = new Set<string>()
  #stillborn: Life | undefined

  constructor(ports: HostPorts) {
    this.#ports = ports
    this.#kinds = new Map(ports.kinds.map((kind) => [kind.name, kind]))
    this.#loop = new CommitLoop({
      clock: ports.clock,
      ledger: ports.ledger,
      log: ports.log,
      run: ports.effects,
      guests: ports.guests ?? [],
      beforeCut: () => this.#beforeCut(),
      cutTaken: () => this.#counts.tell(ports.meters),
      broken: (reason) => this.storeBroke(reason),
    })
    this.#mailbox = new Mailbox(
      (letter) => this.#deliver(letter),
      (error) => this.#undeliverable(error),
    )
    this.#supervisor = new Supervisor({
      ...ports,
      recovered: (life, parked) => this.#recovered(life, parked),
      skipped: (life, event) => this.#deadlineDone(life, event),
      givenUp: (life, reason) => this.#givenUp(life, reason),
    })
    this.#deadlines = new Deadlines(ports.clock, (life, name, due) => this.#deadlineCame(life, name, due))
  }

  /** A new life. Refused when there is one of that kind and key, or when it throws while being born. */
  bear(kind: string, key: string, input: unknown): Answer<Address> {
    if (this.#registry.get(kind, key) !== undefined)
      return no('conflict', `there is a ${kind} ${key} already`)
    if (this.#damaged.has(`${kind} ${key}`)) return no('failed', `the stored ${kind} ${key} is damaged`)
    this.#stillborn = undefined
    this.#mailbox.post({ is: 'birth', to: { kind, key }, input })
    return this.#stillborn === undefined
      ? yes({ kind, key })
      : no('failed', `the ${kind} ${key} could not be started`)
  }

  /** Answers whether there is such a life; what it makes of the event is its own affair. */
  tell(kind: string, key: string, event: EventObject): boolean {
    const life = this.#registry.get(kind, key)
    if (life === undefined) return false
    this.#mailbox.post({ is: 'handed', life, event })
    return true
  }

  /** Reads every record and brings its life back. A record newer than the program stops everything (`gone`). */
  restore(): Answer<RestoreReport> {
    const damaged: string[] = []
    const restored: Life[] = []
    for (const name of this.#ports.ledger.lives.kinds()) {
      const kind = this.#kinds.get(name)
      for (const [key, record] of this.#ports.ledger.lives.all(name)) {
        if (kind?.layout === undefined)
          return no('gone', `${name} ${key}: this version knows no such kind of life`)
        const revived = this.#restored(kind, kind.layout, key, record)
        if (revived.is === 'newer') return no('gone', `${name} ${key}: ${revived.reason}`)
        if (revived.is === 'alive') restored.push(revived.life)
        else {
          damaged.push(`${name} ${key}: ${revived.reason}`)
          this.#damaged.add(`${name} ${key}`)
        }
      }
    }
    for (const life of restored) this.#tellWatch(life, undefined, false, true)
    for (const life of restored) this.#send(life.kind.implied?.(life.key, life.good) ?? [])
    return yes({ restored: restored.length, damaged })
  }

  #restored(kind: Kind, layout: RecordLayout, key: string, record: LifeRecord): Revived {
    try {
      const decoded = layout.decode(record)
      if (decoded.is !== 'life') return decoded
      const context = this.#joined(kind, key, decoded.life.context)
      if (context === undefined) return { is: 'damaged', reason: 'the other part of it is missing' }
      const life = this.#nursery.restored(kind, key, { ...decoded.life, context })
      if (life.good.status === 'error') return { is: 'damaged', reason: messageOf(life.good.error) }
      this.#registry.add(life)
      for (const [name, at] of Object.entries(decoded.life.deadlines)) this.#setDeadline(life, name, at)
      return { is: 'alive', life }
    } catch (error) {
      return { is: 'damaged', reason: messageOf(error) }
    }
  }

  #joined({ split }: Kind, key: string, kept: unknown): unknown {
    const { runs } = this.#ports.ledger
    return split === undefined || runs === undefined ? kept : split.join(key, kept, { runs })
  }

  /** Is something stored under that name that can't live? Then nobody can say that there is no such life. */
  isDamaged(kind: string, key: string): boolean {
    return this.#damaged.has(`${kind} ${key}`)
  }

  /** There is such a life, and it takes its events as they come: it is not recovering from a crash. */
  isWell(kind: string, key: string): boolean {
    const life = this.#registry.get(kind, key)
    return life !== undefined && life.recovery === undefined
  }

  keys(kind: string): Iterable<string> {
    return this.#registry.keys(kind)
  }

  /** There may be something to write that no life knows of. */
  stir(): void {
    this.#loop.wake()
  }

  /** An effect that runs once everything that has happened so far is on disk. */
  afterwards(effect: Effect): void {
    this.#loop.queue(effect)
    this.#loop.wake()
  }

  /** The last good state of a life: what it is now, be it on disk or not. */
  peek(kind: string, key: string): AnyMachineSnapshot | undefined {
    return this.#registry.get(kind, key)?.good
  }

  /** The state of a life as of the last commit: what may be told to anyone. */
  peekDurable(kind: string, key: string): AnyMachineSnapshot | undefined {
    return this.#registry.get(kind, key)?.durable
  }

  count(): ReadonlyMap<string, number> {
    return this.#registry.count()
  }

  pendingDeadlines(): number {
    return this.#deadlines.size
  }

  /** Resolves when everything that was told is committed and its effects have run. */
  settled(): Promise<void> {
    return this.#loop.settled()
  }

  /**
   * Memory is ahead of a disk that takes no more: nothing that is not on disk may have an effect from now on. Only
   * diskless lives still hear anything, so that they can stop the rest.
   */
  storeBroke(reason: string): void {
    if (this.#halted || this.#stopped) return
    this.#halted = true
    this.#loop.halt()
    this.#ports.fatal(`the store is broken: ${reason}`)
  }

  /** Lets go of every life at once. Nothing is written any more; what is on disk stays. */
  stop(): void {
    this.#stopped = true
    this.#mailbox.close()
    this.#loop.halt()
    this.#deadlines.stop()
    for (const life of [...this.#registry.all()]) {
      life.recovery?.wake()
      this.#nursery.letGo(life)
      this.#registry.remove(life)
    }
    this.#nursery.close()
  }

  // ---- delivery ------------------------------------------------------------------------------------------------

  #deliver(letter: Letter): void {
    if (letter.is === 'handed') {
      this.#hand(letter.life, letter.event)
      return
    }
    const { kind, key } = letter.to
    const life = this.#registry.get(kind, key)
    if (letter.is === 'event') {
      if (life !== undefined) this.#hand(life, letter.event)
      else this.#ports.log.debug({ kind, key, event: letter.event.type }, 'mail for a life that is no more')
    } else if (life === undefined) {
      if (!this.#halted || this.#kinds.get(kind)?.diskless === true) this.#born(kind, key, letter.input)
    } else {
      this.#ports.log.error({ kind, key }, 'a life was to be started twice')
    }
  }

  #hand(life: Life, event: EventObject): void {
    if (life.gone || (this.#halted && life.kind.diskless !== true)) return
    if (life.recovery !== undefined) this.#supervisor.park(life, event)
    else this.#transition(life, event)
  }

  #born(kindName: string, key: string, input: unknown): void {
    const kind = this.#kinds.get(kindName)
    if (kind === undefined) throw new Error(`no such kind of life: ${kindName}`)
    const life = this.#nursery.born(kind, key, input)
    if (life.good.status === 'error') {
      this.#discard()
      this.#ports.meters.count('actor_crashes_total', { kind: kind.name })
      this.#ports.log.error({ kind: kind.name, key, err: life.good.error }, 'a life threw while being born')
      this.#stillborn = life
      this.#sayLastWords(life, 'threw while being born')
      if (kind.supervision.finally === 'fatal') this.#ports.fatal(`${kind.name} threw while being born`)
      return
    }
    this.#registry.add(life)
    this.#loop.markDirty(life)
    this.#succeeded(life, undefined)
  }

  #transition(life: Life, event: EventObject): void {
    // Moved or cancelled since it came due, by what was waiting before it.
    if (life.deadlines !== undefined && isDeadline(event) && life.deadlines.get(event.name) !== event.due)
      return
    this.#counts.add(life.kind.name)
    life.actor.send(event)
    const after = life.actor.getSnapshot() as AnyMachineSnapshot
    if (after.status === 'error') {
      this.#discard()
      this.#supervisor.crashed(life, event, after.error)
      return
    }
    if (life.suspect === event) life.suspect = undefined
    const before = life.good
    if (after.value !== before.value || after.context !== before.context) this.#loop.markDirty(life)
    life.good = after
    this.#deadlineDone(life, event)
    this.#succeeded(life, before)
  }

  /** Takes what the transition laid on the tray. */
  #succeeded(life: Life, before: AnyMachineSnapshot | undefined): void {
    const { effects, mail, deadlines, ended } = this.#nursery.tray
    if (life.kind.diskless) this.#runSoon(life.kind, [...effects])
    else for (const effect of effects) this.#loop.queue(effect)
    for (const item of mail) this.#mailbox.post(item)
    for (const change of deadlines) {
      if (change.is === 'set') this.#setDeadline(life, change.name, change.at)
      else this.#cancelDeadline(life, change.name)
      this.#loop.markDirty(life)
    }
    this.#discard()
    const over = ended || life.good.status === 'done'
    if (over) {
      this.#loop.markDirty(life)
      this.#remove(life, true)
      // A final state stops its actor by itself.
      if (ended) this.#nursery.letGo(life)
    }
    if (life.good !== before) this.#tellWatch(life, before, over, false)
    this.#loop.wake()
  }

  #tellWatch(life: Life, before: AnyMachineSnapshot | undefined, over: boolean, restored: boolean): void {
    try {
      this.#ports.watch?.({ kind: life.kind.name, key: life.key, before, after: life.good, over, restored })
    } catch (error) {
      // What is known of the lives would no longer be what they are.
      this.#ports.log.error({ kind: life.kind.name, err: error }, 'a change could not be taken note of')
      this.#ports.fatal(messageOf(error))
    }
  }

  #beforeCut(): void {
    try {
      this.#ports.beforeCut?.()
    } catch (error) {
      this.#ports.log.error({ err: error }, 'nothing could be decided before a cut')
      this.#ports.fatal(messageOf(error))
    }
  }

  #runSoon(kind: Kind, effects: readonly Effect[]): void {
    if (effects.length === 0) return
    this.#ports.clock.endOfTick(() => {
      for (const effect of effects) this.#runNow(kind, effect)
    })
  }

  #runNow(kind: Kind, effect: Effect): void {
    try {
      this.#ports.effects(effect)
    } catch (error) {
      // As in a cut: one line that can't be written to must not take everybody down.
      this.#ports.log.error({ err: error, effect: effect.type }, 'an effect failed')
      if (kind.supervision.finally === 'fatal') this.#ports.fatal(messageOf(error))
    }
  }

  #discard(): void {
    const { tray } = this.#nursery
    tray.effects.length = 0
    tray.mail.length = 0
    tray.deadlines.length = 0
    tray.ended = false
  }

  #remove(life: Life, erase: boolean): void {
    life.gone = true
    life.erased = erase
    life.recovery?.wake()
    life.recovery = undefined
    this.#deadlines.cancelAll(life)
    this.#registry.remove(life)
  }

  #send(outgoing: readonly Outgoing[]): void {
    for (const out of outgoing) {
      if (out.is === 'effect') this.#loop.queue(out.effect)
      else this.#mailbox.post({ is: 'event', to: out.to, event: out.event })
    }
    this.#loop.wake()
  }

  // ---- deadlines -----------------------------------------------------------------------------------------------

  #setDeadline(life: Life, name: string, at: number): void {
    life.deadlines = (life.deadlines ?? new Map<string, number>()).set(name, at)
    this.#deadlines.set(life, name, at)
  }

  #cancelDeadline(life: Life, name: string): void {
    life.deadlines?.delete(name)
    this.#deadlines.cancel(life, name)
  }

  #deadlineCame(life: Life, name: string, due: number): void {
    if (this.#stopped || life.gone) return
    const event: DeadlineEvent = { type: `deadline.${name}`, name, due, at: this.#ports.clock.now() }
    this.#mailbox.post({ is: 'handed', life, event })
  }

  /**
   * A deadline leaves the record only with the transition it caused. Until then (the life may be recovering from a
   * crash) it stays there, so that a restart fires it again.
   */
  #deadlineDone(life: Life, event: EventObject): void {
    if (life.deadlines === undefined || !isDeadline(event)) return
    if (life.deadlines.get(event.name) !== event.due) return
    life.deadlines.delete(event.name)
    this.#loop.markDirty(life)
    this.#loop.wake()
  }

  // ---- when something breaks -----------------------------------------------------------------------------------

  #recovered(life: Life, parked: readonly EventObject[]): void {
    if (this.#stopped || life.gone) return
    this.#nursery.renew(life)
    // The very same event objects again: a second crash on one of them is recognised by identity.
    for (const event of parked) this.#mailbox.post({ is: 'handed', life, event })
  }

  #givenUp(life: Life, reason: string): void {
    const { supervision, name } = life.kind
    this.#ports.log.error({ kind: name, key: life.key, reason }, `a ${name} was given up`)
    this.#remove(life, supervision.finally === 'closed')
    if (life.erased) this.#loop.markDirty(life)
    else if (life.kind.layout !== undefined) this.#damaged.add(`${name} ${life.key}`)
    this.#tellWatch(life, life.good, true, false)
    this.#sayLastWords(life, reason)
    if (supervision.finally === 'fatal') this.#ports.fatal(`${name} ${life.key}: ${reason}`)
  }

  /** Lives that throw are caught elsewhere: this is the kit or a kind's own definition, so nothing can go on. */
  #undeliverable(error: unknown): void {
    this.#ports.log.error({ err: error }, 'mail could not be delivered')
    this.#ports.fatal(messageOf(error))
  }

  #sayLastWords({ kind, key, good }: Life, reason: string): void {
    try {
      const at = this.#ports.clock.now()
      this.#send(kind.supervision.lastWords?.(key, good, reason, at) ?? [])
    } catch (error) {
      this.#ports.log.error({ kind: kind.name, key, err: error }, 'last words failed')
    }
  }
}

type Revived =
  | { readonly is: 'alive'; readonly life: Life }
  | { readonly is: 'newer'; readonly reason: string }
  | { readonly is: 'damaged'; readonly reason: string }

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))

const isDeadline = (event: EventObject): event is DeadlineEvent => event.type.startsWith('deadline.')
