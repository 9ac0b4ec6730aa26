/**
 * `WorkPlan` holds the differences between a new run and a follow-up: where the work begins, the agent's prompt, and
 * what is published. `execution.ts` and `finish-execution.ts` do everything that both have in common. `FinalizingTime`
 * bounds the steps after the agent.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import { no, type Refused, type Result } from '../../../core/result.ts'
import type { ReachableHosts } from '../../registries/registry-hosts.ts'
import type { NumberedFolders } from '../disk/sandboxes.ts'
import type { SandboxSession } from '../sandbox-session.ts'
import type { UnpublishedWork } from './unpublished-work.ts'

/** The request that an agent is started with. */
export interface AgentRequest {
  readonly prompt: string
  /** The id of the agent session to resume. */
  readonly resume?: string
  readonly environment?: Readonly<Record<string, string>>
}

/** Tells whether publishing may still continue. */
export interface PublishGuard {
  /** Asked before each step that is visible outside this machine. */
  readonly mayContinue: () => boolean
  readonly signal: AbortSignal
}

export interface PublishRequest extends PublishGuard {
  readonly session: SandboxSession
  /** The time of the steps before something is pushed. */
  readonly time: FinalizingTime
  /** The agent's last message. */
  readonly agentSummary: string
  /** Adds an artifact that the worker made, not the agent. */
  readonly addArtifact: (name: string, text: string) => void
  /** Adds the bundle of unpublished commits; returns whether it is not too large. */
  readonly addBundle: (path: string) => Promise<boolean>
  /** The guard for the steps after a push: a cancelled follow-up may still post the comment that explains its push. */
  readonly afterPush: PublishGuard
}

/** The result that is visible on the code host now. */
export interface PublishedWork {
  readonly branch: string
  readonly prUrl: string
  readonly prState?: 'open' | 'draft'
  /** The pushed commit. Absent: this execution pushed nothing. */
  readonly pushed?: string
  /** Replaces the agent's last message as the run's summary. */
  readonly summary?: string
}

export interface PublishEnd {
  /** undefined: nothing changed, so nothing was published. */
  readonly published: Result<PublishedWork | undefined>
  /** The sandbox holds finished work that can be published later. */
  readonly isUnpublished: boolean
}

/** The rest of an execution after its agent, besides the hook. */
export type WorkDue = Pick<UnpublishedWork, 'areOutputsDue'>

export interface WorkPlan {
  /** Called once, at the beginning. Refused with the failure `publish`, as is `checkOut`: nobody can read what was done. */
  openFolders(): Promise<Result<NumberedFolders>>
  /**
   * Calls `onAgentKnown` when the checkout does not wait for other runs any more, unless what the agent is asked depends
   * on the checkout.
   */
  checkOut(
    session: SandboxSession,
    signal: AbortSignal,
    onAgentKnown: (agentRequest: AgentRequest) => void,
  ): Promise<Result<void>>
  /** Called after the checkout; undefined: the network does not depend on hosts. */
  reachableHosts(): ReachableHosts | undefined
  /** Called after the checkout. undefined: there is nothing for an agent to do. */
  agentRequest(): AgentRequest | undefined
  /** Whether the repository's setup runs before the agent, and whether it has to succeed. */
  setupRule(): 'required' | 'optional' | 'skip'
  /** Whether the sandbox is older than this execution and therefore stays, whatever the outcome. */
  hasRetainedSandbox(): boolean
  /** Whether the sandbox still holds work that exists nowhere else after everything is published. */
  hasUnpublishedWork(): boolean
  /**
   * Remembers finished work at the end of the agent, and before the hook that follows: an end of the worker must not lose
   * the work.
   */
  remember(session: SandboxSession, agentSummary: string, due: WorkDue): Promise<void>
  /** Whether an earlier execution has left finished work whose hook has not come to its end. */
  isHookDue(): boolean
  publish(request: PublishRequest): Promise<PublishEnd>
}

// ---- the time after the agent --------------------------------------------------------------------------------------

/** Twice the longest step, the hook. */
const FINALIZING_MS_MAX = 60 * 60_000
const MINUTE_MS = 60_000

/**
 * Bounds all steps together that follow the agent: its outputs, the hook, collecting and searching the work. Each has
 * a bound of its own, and many in a row would keep a slot of the worker for hours.
 *
 * Steps that contact the code host do not count: they have a patience of their own, and are never cut. Work that the
 * time does not suffice for stays in its sandbox, and the host has it published again.
 */
export class FinalizingTime {
  readonly #clock: Pick<Clock, 'after' | 'monotonic'>
  readonly #msMax: number
  #leftMs: number

  constructor(clock: Pick<Clock, 'after' | 'monotonic'>, msMax = FINALIZING_MS_MAX) {
    this.#clock = clock
    this.#msMax = msMax
    this.#leftMs = msMax
  }

  get isOver(): boolean {
    return this.#leftMs <= 0
  }

  /** The signal aborts when the time is over. A step that came to its end nevertheless counts. */
  async within<T>(step: (signal: AbortSignal) => Promise<Result<T>>): Promise<Result<T>> {
    const done = await this.measure(step)
    return !done.ok && this.isOver ? this.refusal() : done
  }

  async measure<T>(step: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController()
    const began = this.#clock.monotonic()
    const endMs = this.#leftMs
    const cancel = this.#clock.after(Math.max(0, endMs), () => {
      this.#leftMs = 0
      abort.abort()
    })
    if (this.isOver) abort.abort()
    try {
      return await step(abort.signal)
    } finally {
      cancel()
      this.#leftMs = Math.min(this.#leftMs, endMs - (this.#clock.monotonic() - began))
    }
  }

  /** The host has the work published again. */
  refusal(): Refused {
    const minutes = Math.ceil(this.#msMax / MINUTE_MS)
    const { refusal } = no(
      'failed',
      `what follows the agent did not end within ${minutes === 1 ? 'a minute' : `${minutes} minutes`}, so nothing was published; its work stays in its sandbox`,
    )
    return { ok: false, refusal: { ...refusal, failure: 'publish' } }
  }
}
