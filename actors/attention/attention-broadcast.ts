/**
 * AttentionBroadcast pushes the list of what needs a person to dashboards, when it has changed.
 *
 * The list is made at a commit, at most once in `ATTENTION_PUSH_MS`, and pushed after it: dashboards see only what is
 * on disk. A timer makes it again at the next instant that changes it, such as the end of a usage limit.
 */
import {
  type CollectedAttention,
  collectAttention,
  degradationsOf,
  nextAttentionChange,
} from '../../core/attention/collect-attention.ts'
import type { AttentionFacts } from '../../core/attention/facts.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type { HostContext } from '../host-context.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

/** A changed list is pushed to dashboards at most once in this time. */
export const ATTENTION_PUSH_MS = 500

export interface AttentionBroadcastPorts extends Pick<HostContext, 'clock' | 'broadcast' | 'requestCommit'> {
  readonly facts: () => AttentionFacts
}

/** The longest timer. Timers of the platform overflow after 24 days. */
const CHANGE_CHECK_MS_MAX = 24 * 3_600_000

export class AttentionBroadcast implements CommitParticipant {
  readonly #ports: AttentionBroadcastPorts
  /** The list that was made last for all dashboards, as JSON; undefined when they may have different ones. */
  #pushed: string | undefined = '{"items":[]}'
  #degraded: readonly string[] | undefined
  #isDue = false
  #isScheduled = false
  #cancelPush: Cancel = () => {}
  #cancelCheck: Cancel = () => {}

  constructor(ports: AttentionBroadcastPorts) {
    this.#ports = ports
  }

  /** Returns the list of this moment. When it is not the one that was pushed last, all dashboards get the next one. */
  read(): CollectedAttention {
    const { broadcast, facts } = this.#ports
    const now = facts()
    const list = collectAttention(now)
    if (broadcast.hasListeners) this.#scheduleCheck(now)
    if (JSON.stringify(list) !== this.#pushed) {
      this.#pushed = undefined
      this.onChange()
    }
    return list
  }

  /** Returns the same array while nothing has changed. */
  degraded(): readonly string[] {
    this.#degraded ??= degradationsOf(collectAttention(this.#ports.facts()).items)
    return this.#degraded
  }

  onChange(): void {
    this.#degraded = undefined
    const { broadcast, clock, requestCommit } = this.#ports
    if (!broadcast.hasListeners || this.#isScheduled) return
    this.#isScheduled = true
    this.#cancelPush = clock.after(ATTENTION_PUSH_MS, () => {
      this.#isDue = true
      // On a full disk no commit ends, and dashboards must hear of it all the same.
      if (this.#ports.facts().disk === undefined) requestCommit()
      else this.contribute()?.onCommitted()
    })
  }

  contribute(): CommitContribution | undefined {
    if (!this.#isDue) return undefined
    this.#isDue = false
    this.#isScheduled = false
    const facts = this.#ports.facts()
    this.#scheduleCheck(facts)
    const list = collectAttention(facts)
    const pushed = JSON.stringify(list)
    if (pushed === this.#pushed) return undefined
    this.#pushed = pushed
    return {
      writes: [],
      onCommitted: () => {
        // After a dashboard has read a newer list, it must not get this one.
        if (this.#pushed === pushed) this.#ports.broadcast.send({ type: 'attention', ...list })
      },
    }
  }

  stop(): void {
    this.#cancelPush()
    this.#cancelCheck()
  }

  #scheduleCheck(facts: AttentionFacts): void {
    this.#cancelCheck()
    const at = nextAttentionChange(facts)
    if (at === undefined) return
    const waitMs = Math.min(at - facts.now, CHANGE_CHECK_MS_MAX)
    this.#cancelCheck = this.#ports.clock.after(waitMs, () => this.onChange())
  }
}
