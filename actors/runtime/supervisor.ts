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
  readonly onRecovered: (life: LiveActor, parked: readonly EventObject[]) => void
  readonly onSkipped: (life: LiveActor, event: EventObject) => void
  readonly onGivenUp: (life: LiveActor, reason: string) => void
}

export class Supervisor {
  readonly #ports: SupervisorPorts

  constructor(ports: SupervisorPorts) {
    this.#ports = ports
  }

  onCrash(life: LiveActor, event: EventObject, error: unknown): void {
    const { clock, log, meters } = this.#ports
    const { name, supervision } = life.kind
    const now = clock.monotonic()
    life.crashes = [...recentCrashes(life.crashes, now, supervision.withinMs), now]
    const crashes = life.crashes.length
    meters.count('actor_crashes_total', { kind: name })
    log.error({ kind: name, key: life.key, event: event.type, crashes, err: error }, `a ${name} threw`)

    const verdict = judgeCrash(supervision, crashes)
    if (verdict.is === 'given up') {
      this.#ports.onGivenUp(life, `crashed ${crashes} times`)
      return
    }
    const again = life.suspectEvent !== event
    if (!again && supervision.onRepeatedCrash === 'give up') {
      this.#ports.onGivenUp(life, `crashed twice on ${event.type}`)
      return
    }
    life.suspectEvent = again ? event : undefined
    life.recovery = {
      heldEvents: again ? [event] : [],
      cancel: clock.after(verdict.pauseMs, () => this.#recover(life)),
    }
    if (again) return
    log.error(
      { kind: name, key: life.key, event: event.type },
      'an event that crashed its life twice is skipped',
    )
    this.#ports.onSkipped(life, event)
  }

  holdEvent(life: LiveActor, event: EventObject): void {
    const parked = life.recovery?.heldEvents ?? []
    parked.push(event)
    if (parked.length > HELD_EVENTS_MAX) {
      this.#ports.onGivenUp(life, `${parked.length} events arrived while it recovered`)
    }
  }

  #recover(life: LiveActor): void {
    const parked = life.recovery?.heldEvents ?? []
    life.recovery = undefined
    this.#ports.onRecovered(life, parked)
  }
}

// ---- the rules, pure ---------------------------------------------------------------------------------------------

export type CrashVerdict = { readonly is: 'restart'; readonly pauseMs: number } | { readonly is: 'given up' }

export function recentCrashes(crashes: readonly number[], now: number, withinMs: number): readonly number[] {
  return crashes.filter((at) => now - at < withinMs)
}

/** `count`: crashes within the policy's window, this one included. */
export function judgeCrash(policy: Supervision, count: number): CrashVerdict {
  const pauseMs = policy.restartAfterMs[Math.min(count, policy.restartAfterMs.length) - 1]
  if (pauseMs === undefined || count >= policy.crashesMax) return { is: 'given up' }
  return { is: 'restart', pauseMs }
}
