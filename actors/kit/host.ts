/**
 * The actor host: brings lives into being, hands them their events, and keeps them alive.
 *
 * A transition either succeeds whole (its new state is good, its effects and mail are taken) or, when it throws,
 * leaves nothing behind but a crash for the supervisor. Mail between lives is delivered within the same tick, one
 * after the other and never on top of each other's stacks, so that a cut sees them all at rest.
 */
import type { AnyActorRef, AnyMachineSnapshot, EventObject } from 'xstate'
import { createActor, fromTransition } from 'xstate'
import type { Clock, Ledger, Log, Meters } from '../../core/ports.ts'
import type { Answer } from '../../core/refusal.ts'
import { no, yes } from '../../core/refusal.ts'
import { CommitLoop } from './commit.ts'
import { Deadlines } from './deadlines.ts'
import type { Kind, Outgoing } from './kind.ts'
import type { Life } from './life.ts'
import type { Restored } from './records.ts'
import { Registry } from './registry.ts'
import { crashVerdict, PARKED_EVENTS_MAX, recentCrashes } from './supervision.ts'
import type { Address, Effect, Mail, Tray } from './tray.ts'
import { newTray } from './tray.ts'

/** More mail than this within one tick means that lives keep answering each other for ever. */
const MAIL_PER_TICK_MAX = 100_000

export interface HostPorts {
  readonly clock: Clock
  readonly ledger: Pick<Ledger, 'commit' | 'lives'>
  readonly log: Log
  readonly meters: Meters
  readonly kinds: readonly Kind[]
  /** Does one effect. Called only when its cause is on disk; doing an effect twice is harmless. */
  readonly effects: (effect: Effect) => void
  /** The host can't go on. Called once. */
  readonly fatal: (reason: string) => void
}

export interface RestoreReport {
  readonly restored: number
  /** Records that could not be read. They stay on disk. */
  readonly damaged: readonly string[]
}

export class ActorHost {
  readonly #ports: HostPorts
  readonly #kinds: ReadonlyMap<string, Kind>
  readonly #registry = new Registry()
  readonly #ground
  readonly #tray: Tray
  readonly #loop: CommitLoop
  readonly #deadlines: Deadlines<Life>
  #pending: Mail[] = []
  #draining = false
  #stopped = false
  #fatal = false
  /** Transitions by kind, and how many of them the meters know of. */
  readonly #taken = new Map<string, { count: number; told: number }>()

  constructor(ports: HostPorts) {
    this.#ports = ports
    this.#kinds = new Map(ports.kinds.map((kind) => [kind.name, kind]))
    this.#ground = createActor(ground, { id: 'ground' })
    this.#ground.start()
    this.#loop = new CommitLoop({
      clock: ports.clock,
      ledger: ports.ledger,
      log: ports.log,
      run: ports.effects,
      cutTaken: () => this.#report(),
      broken: (reason) => {
        this.halt()
        this.#giveUpAll(`the store is broken: ${reason}`)
      },
    })
    this.#tray = newTray(this.#ground.system)
    this.#deadlines = new Deadlines(ports.clock, (life, name, at) => this.#deadlineCame(life, name, at))
  }

  /** A new life. Refused when there is one of that kind and key, or when it throws while being born. */
  bear(kind: string, key: string, input: unknown): Answer<Address> {
    if (this.#registry.get(kind, key) !== undefined)
      return no('conflict', `there is a ${kind} ${key} already`)
    this.#post({ is: 'birth', to: { kind, key }, input })
    return this.#registry.get(kind, key) === undefined
      ? no('failed', `the ${kind} ${key} could not be started`)
      : yes({ kind, key })
  }

  /** Answers whether there is such a life; what it makes of the event is its own affair. */
  tell(kind: string, key: string, event: EventObject): boolean {
    if (this.#registry.get(kind, key) === undefined) return false
    this.#post({ is: 'event', to: { kind, key }, event })
    return true
  }

  /** Reads every record and brings its life back. A record newer than the program stops everything. */
  restore(): Answer<RestoreReport> {
    const damaged: string[] = []
    const restored: Life[] = []
    for (const kind of this.#kinds.values()) {
      if (kind.layout === undefined) continue
      for (const [key, record] of this.#ports.ledger.lives.all(kind.name)) {
        const decoded = kind.layout.decode(record)
        if (decoded.is === 'newer') return no('failed', `${kind.name} ${key}: ${decoded.reason}`)
        if (decoded.is === 'damaged') damaged.push(`${kind.name} ${key}: ${decoded.reason}`)
        else restored.push(this.#revive(kind, key, decoded.life))
      }
    }
    for (const life of restored) this.#send(life.kind.implied?.(life.key, life.good) ?? [])
    return yes({ restored: restored.length, damaged })
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

  /** Lets go of every life at once. Nothing is written any more; what is on disk stays. */
  stop(): void {
    this.#stopped = true
    this.#deadlines.stop()
    for (const life of [...this.#registry.all()]) {
      life.recovery?.wake()
      this.#ground.send({ type: 'stop', child: life.actor })
      this.#registry.remove(life)
    }
    this.#ground.stop()
  }

  // ---- delivery ------------------------------------------------------------------------------------------------

  #post(mail: Mail): void {
    this.#pending.push(mail)
    if (!this.#draining) this.#drain()
  }

  #drain(): void {
    this.#draining = true
    for (let at = 0; at < this.#pending.length; at++) {
      if (this.#stopped) break
      if (at === MAIL_PER_TICK_MAX) {
        this.#giveUpAll('lives keep answering each other: too much mail in one tick')
        break
      }
      this.#deliver(this.#pending[at] as Mail)
    }
    // A new array only after a flood, so that its memory goes back.
    if (this.#pending.length > 4_096) this.#pending = []
    else this.#pending.length = 0
    this.#draining = false
  }

  #deliver(mail: Mail): void {
    const { kind, key } = mail.to
    const life = this.#registry.get(kind, key)
    if (mail.is === 'birth') {
      if (life === undefined) this.#born(kind, key, mail.input)
      else this.#ports.log.error({ kind, key }, 'a life was to be started twice')
    } else if (life === undefined) {
      this.#ports.log.debug({ kind, key, event: mail.event.type }, 'mail for a life that is no more')
    } else if (life.recovery !== undefined) {
      this.#park(life, life.recovery.parked, mail.event)
    } else {
      this.#transition(life, mail.event)
    }
  }

  #born(kindName: string, key: string, input: unknown): void {
    const kind = this.#kinds.get(kindName)
    if (kind === undefined) throw new Error(`no such kind of life: ${kindName}`)
    const actor = createActor(kind.logic, { id: kind.name, parent: this.#ground, input })
    actor.start()
    const first = actor.getSnapshot()
    if (first.status === 'error') {
      this.#discard()
      this.#ports.meters.count('actor_crashes_total', { kind: kind.name })
      this.#ports.log.error({ kind: kind.name, key, err: first.error }, 'a life threw while being born')
      if (kind.supervision.finally === 'fatal') this.#giveUpAll(`${kind.name} threw while being born`)
      return
    }
    const life = newLife(kind, key, actor, first)
    this.#registry.add(life)
    this.#succeeded(life, first, true)
  }

  #revive(kind: Kind, key: string, restored: Restored): Life {
    const { value, context } = restored
    const actor = createActor(kind.logic, {
      id: kind.name,
      parent: this.#ground,
      // The shape of a persisted machine snapshot; xstate exports no type for building one by hand.
      snapshot: {
        status: 'active',
        output: undefined,
        error: undefined,
        children: {},
        historyValue: {},
        value,
        context,
      } as never,
      input: undefined,
    })
    actor.start()
    const life = newLife(kind, key, actor, actor.getSnapshot())
    life.durable = life.good
    this.#registry.add(life)
    for (const [name, at] of Object.entries(restored.deadlines)) {
      life.deadlines = (life.deadlines ?? new Map<string, number>()).set(name, at)
      this.#deadlines.set(life, name, at)
    }
    return life
  }

  #transition(life: Life, event: EventObject): void {
    this.#count(life.kind.name)
    life.actor.send(event)
    const after = life.actor.getSnapshot() as AnyMachineSnapshot
    if (after.status === 'error') {
      this.#discard()
      this.#crashed(life, event, after.error)
      return
    }
    if (life.suspect === event) life.suspect = undefined
    this.#succeeded(life, after, after.value !== life.good.value || after.context !== life.good.context)
  }

  #count(kind: string): void {
    const taken = this.#taken.get(kind)
    if (taken === undefined) this.#taken.set(kind, { count: 1, told: 0 })
    else taken.count++
  }

  /** Once a cut, not once a transition: meters cost more than a transition does. */
  #report(): void {
    for (const [kind, taken] of this.#taken) {
      if (taken.count === taken.told) continue
      this.#ports.meters.count('actor_transitions_total', { kind }, taken.count - taken.told)
      taken.told = taken.count
    }
  }

  /** Takes what the transition laid on the tray. */
  #succeeded(life: Life, after: AnyMachineSnapshot, changed: boolean): void {
    const { effects, mail, deadlines } = this.#tray
    life.good = after
    for (const effect of effects) this.#loop.queue(effect)
    effects.length = 0
    for (const item of mail) this.#pending.push(item)
    mail.length = 0
    for (const change of deadlines) {
      if (change.is === 'set') {
        life.deadlines = (life.deadlines ?? new Map<string, number>()).set(change.name, change.at)
        this.#deadlines.set(life, change.name, change.at)
      } else {
        life.deadlines?.delete(change.name)
        this.#deadlines.cancel(life, change.name)
      }
    }
    if (changed || deadlines.length > 0) this.#loop.markDirty(life)
    deadlines.length = 0
    if (after.status === 'done') this.#remove(life)
    this.#loop.wake()
    if (!this.#draining && this.#pending.length > 0) this.#drain()
  }

  #discard(): void {
    this.#tray.effects.length = 0
    this.#tray.mail.length = 0
    this.#tray.deadlines.length = 0
  }

  #remove(life: Life): void {
    life.ended = true
    life.recovery?.wake()
    life.recovery = undefined
    this.#deadlines.cancelAll(life)
    this.#registry.remove(life)
  }

  #send(outgoing: readonly Outgoing[]): void {
    for (const out of outgoing) {
      if (out.is === 'effect') this.#loop.queue(out.effect)
      else this.#post({ is: 'event', to: out.to, event: out.event })
    }
    this.#loop.wake()
  }

  #deadlineCame(life: Life, name: string, at: number): void {
    if (this.#stopped || life.ended) return
    life.deadlines?.delete(name)
    this.#loop.markDirty(life)
    const event: EventObject & { due: number; at: number } = {
      type: `deadline.${name}`,
      due: at,
      at: this.#ports.clock.now(),
    }
    this.#post({ is: 'event', to: addressOf(life), event })
    this.#loop.wake()
  }

  // ---- supervision ---------------------------------------------------------------------------------------------

  #crashed(life: Life, event: EventObject, error: unknown): void {
    const { clock, log, meters } = this.#ports
    const { kind, key } = life
    meters.count('actor_crashes_total', { kind: kind.name })
    life.crashes = [
      ...recentCrashes(life.crashes, clock.monotonic(), kind.supervision.withinMs),
      clock.monotonic(),
    ]
    const verdict = crashVerdict(kind.supervision, life.crashes.length)
    log.error(
      { kind: kind.name, key, event: event.type, crashes: life.crashes.length, err: error },
      `a ${kind.name} threw`,
    )
    if (verdict.is === 'given up') {
      this.#giveUp(life, `crashed ${life.crashes.length} times`)
      return
    }
    const again = life.suspect !== event
    if (!again)
      log.error(
        { kind: kind.name, key, event: event.type },
        'an event that crashed its life twice is skipped',
      )
    life.suspect = again ? event : undefined
    life.recovery = {
      parked: again ? [event] : [],
      wake: clock.after(verdict.pauseMs, () => this.#restart(life)),
    }
  }

  #restart(life: Life): void {
    const parked = life.recovery?.parked ?? []
    if (this.#stopped || life.ended) return
    life.recovery = undefined
    life.actor = createActor(life.kind.logic, {
      id: life.kind.name,
      parent: this.#ground,
      snapshot: life.kind.logic.getPersistedSnapshot(life.good),
      input: undefined,
    })
    life.actor.start()
    // The very same event objects again: a second crash on one of them is recognised by identity.
    for (const event of parked) this.#post({ is: 'event', to: addressOf(life), event })
  }

  #park(life: Life, parked: EventObject[], event: EventObject): void {
    parked.push(event)
    if (parked.length > PARKED_EVENTS_MAX)
      this.#giveUp(life, `${parked.length} events arrived while it recovered`)
  }

  #giveUp(life: Life, reason: string): void {
    const { supervision, name } = life.kind
    this.#ports.log.error({ kind: name, key: life.key, reason }, `a ${name} was given up`)
    this.#remove(life)
    if (supervision.finally === 'closed') this.#loop.markDirty(life)
    this.#send(supervision.lastWords?.(life.key, life.good, reason) ?? [])
    if (supervision.finally === 'fatal') this.#giveUpAll(`${name} ${life.key}: ${reason}`)
  }

  #giveUpAll(reason: string): void {
    if (this.#fatal) return
    this.#fatal = true
    this.#ports.fatal(reason)
  }

  /** After the store broke: memory is ahead of disk, so nothing that is not on disk may have an effect any more. */
  halt(): void {
    this.#loop.halt()
  }
}

const addressOf = (life: Life): Address => ({ kind: life.kind.name, key: life.key })

function newLife(kind: Kind, key: string, actor: Life['actor'], first: AnyMachineSnapshot): Life {
  return {
    kind,
    key,
    actor,
    good: first,
    durable: undefined,
    deadlines: undefined,
    ended: false,
    recovery: undefined,
    crashes: [],
    suspect: undefined,
  }
}

/**
 * The parent of every life. It does nothing of its own: what becomes of a life that ends or throws is decided above,
 * right after the event that did it, and not in a second place by way of the parent's mailbox. Only a parent may stop
 * its children, so that is what it is asked to do.
 */
const ground = fromTransition(
  (
    state: Record<string, never>,
    event: { type: 'stop'; child: AnyActorRef } | { type: `xstate.${string}` },
    scope,
  ) => {
    if ('child' in event) scope.stopChild(event.child)
    return state
  },
  {},
)
