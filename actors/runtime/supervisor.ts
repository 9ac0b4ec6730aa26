/**
 * Supervisor decides what happens to an actor that threw: a restart from its last good state after a pause, or its end.
 *
 * Events that arrive while an actor recovers are held in order, up to a limit. The event that caused the crash is tried
 * once more; after a second crash it is logged and skipped, or ends the actor, as its kind declares.
 */
import type { EventObject } from 'xstate'
import type { Clock, Log, Meters } from '../../core/ports.ts'
import type { Supervision } from './actor-kind.ts'
import type { LiveActor } from './live-actor.ts'

/** How many events may arrive for an actor while it recovers. With more the supervisor gives it up. */
export const HELD_EVENTS_MAX = 10_000

export interface SupervisorPorts {
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  /** The pause is over: restart the actor and deliver the held events, oldest first. */
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
      'an event that crashed its actor twice is skipped',
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

/** @param count crashes within the policy's window, this one included */
export function judgeCrash(policy: Supervision, count: number): CrashVerdict {
  const pauseMs = policy.restartAfterMs[Math.min(count, policy.restartAfterMs.length) - 1]
  if (pauseMs === undefined || count >= policy.crashesMax) return { is: 'give up' }
  return { is: 'restart', pauseMs }
}
