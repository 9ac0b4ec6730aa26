/**
 * What happens after a life threw: another actor from the last good state after a pause, or the end.
 *
 * While it recovers, what arrives for it is kept in order, and bounded. The event it threw on is tried once more; an
 * event that crashes its life twice is, as its kind prefers, recorded and skipped, or the end of it.
 */
import type { EventObject } from 'xstate'
import type { Clock, Log, Meters } from '../../core/ports.ts'
import type { Supervision } from './actor-kind.ts'
import type { LiveActor } from './live-actor.ts'

/** What may arrive for a life while it recovers from a crash. More than that, and it is given up. */
export const HELD_EVENTS_MAX = 10_000

export interface SupervisorPorts {
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  /** It has an actor again; what was parked goes to it, oldest first. */
  readonly onRecovered: (actor: LiveActor, heldEvents: readonly EventObject[]) => void
  readonly onSkipped: (actor: LiveActor, event: EventObject) => void
  readonly onGivenUp: (actor: LiveActor, reason: string) => void
}

export class Supervisor {
  readonly #ports: SupervisorPorts

  constructor(ports: SupervisorPorts) {
    this.#ports = ports
  }

  onCrash(actor: LiveActor, event: EventObject, error: unknown): void {
    const { clock, log, meters } = this.#ports
    const { name, supervision } = actor.kind
    const now = clock.monotonic()
    actor.crashes = [...recentCrashes(actor.crashes, now, supervision.withinMs), now]
    const crashes = actor.crashes.length
    meters.count('actor_crashes_total', { kind: name })
    log.error({ kind: name, key: actor.key, event: event.type, crashes, err: error }, `a ${name} threw`)

    const verdict = judgeCrash(supervision, crashes)
    if (verdict.is === 'give up') {
      this.#ports.onGivenUp(actor, `crashed ${crashes} times`)
      return
    }
    const triesAgain = actor.suspectEvent !== event
    if (!triesAgain && supervision.onRepeatedCrash === 'give up') {
      this.#ports.onGivenUp(actor, `crashed twice on ${event.type}`)
      return
    }
    actor.suspectEvent = triesAgain ? event : undefined
    actor.recovery = {
      heldEvents: triesAgain ? [event] : [],
      cancel: clock.after(verdict.pauseMs, () => this.#recover(actor)),
    }
    if (triesAgain) return
    log.error(
      { kind: name, key: actor.key, event: event.type },
      'an event that crashed its life twice is skipped',
    )
    this.#ports.onSkipped(actor, event)
  }

  holdEvent(actor: LiveActor, event: EventObject): void {
    const heldEvents = actor.recovery?.heldEvents ?? []
    heldEvents.push(event)
    if (heldEvents.length > HELD_EVENTS_MAX) {
      this.#ports.onGivenUp(actor, `${heldEvents.length} events arrived while it recovered`)
    }
  }

  #recover(actor: LiveActor): void {
    const heldEvents = actor.recovery?.heldEvents ?? []
    actor.recovery = undefined
    this.#ports.onRecovered(actor, heldEvents)
  }
}

// ---- the rules, pure ---------------------------------------------------------------------------------------------

export type CrashVerdict = { readonly is: 'restart'; readonly pauseMs: number } | { readonly is: 'give up' }

export function recentCrashes(crashes: readonly number[], now: number, withinMs: number): readonly number[] {
  return crashes.filter((at) => now - at < withinMs)
}

/** `count`: crashes within the policy's window, this one included. */
export function judgeCrash(policy: Supervision, count: number): CrashVerdict {
  const pauseMs = policy.restartAfterMs[Math.min(count, policy.restartAfterMs.length) - 1]
  if (pauseMs === undefined || count >= policy.crashesMax) return { is: 'give up' }
  return { is: 'restart', pauseMs }
}
