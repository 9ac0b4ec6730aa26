/**
 * Decides whether a person may do something to a run now. The caller has already found the run.
 *
 * Lasting reasons come before passing ones, and each refusal says what to do instead.
 */
import { AGENTS, RESUMABLE_AGENT } from '../../protocol/agents/registry.ts'
import type { PullState, Run, Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { PullReference } from '../ports/code-host.ts'
import { no, type Refused, type Result, yes } from '../result.ts'
import { isTerminal } from './run-transitions.ts'

/** `asked`: the name that the person gave for the ticket. */
export function mayRunTicket(
  asked: string,
  facts: { readonly ticket: Ticket | undefined; readonly activeRun: string | undefined },
): Result<Ticket> {
  const { ticket, activeRun } = facts
  if (ticket === undefined)
    return no('unknown', `no ticket ${printable(asked)} among those that the tracker shows`)
  if (activeRun !== undefined) return no('conflict', activeRunMessage(ticket, activeRun))
  return yes(ticket)
}

export interface RetryFacts {
  readonly competingRun: string | undefined
  readonly booted: boolean
  /** Why a queued run waits. A retry does not remove the cause. */
  readonly waitReason?: string | undefined
}

export function mayRetry(run: Run, facts: RetryFacts): Result<void> {
  if (run.status === 'queued' && facts.waitReason !== undefined)
    return no('conflict', `${run.id} is queued already: ${facts.waitReason}`)
  if (!isTerminal(run.status)) {
    return no('conflict', `${run.id} is ${run.status}: wait for its end or cancel it before a retry`)
  }
  if (run.prState === 'merged')
    return no(
      'conflict',
      `the pull request of ${run.id} is merged already: start its ticket for further work`,
    )
  if (facts.booted) return inUse(run)
  if (facts.competingRun !== undefined)
    return no('conflict', activeRunMessage(run.ticket, facts.competingRun))
  return yes(undefined)
}

export function mayDiscard(run: Run, facts: { readonly booted: boolean }): Result<void> {
  if (!isTerminal(run.status)) {
    return no(
      'conflict',
      `${run.id} is ${run.status}: wait for its end or cancel it before discarding its sandbox`,
    )
  }
  if (run.sandbox.id === undefined) return noSandbox(run)
  return facts.booted ? inUse(run) : yes(undefined)
}

export interface ResumeFacts {
  /** Wall milliseconds. */
  readonly now: number
  readonly followUpStarting: boolean
  /** The sandbox is booted, so its disk stays even after its retention time. */
  readonly booted: boolean
  /** The worker that holds the sandbox; undefined when it is no longer enrolled. */
  readonly worker: { readonly name: string; readonly online: boolean } | undefined
}

/** Returns the session to resume. */
export function mayResume(run: Run, facts: ResumeFacts): Result<{ readonly sessionId: string }> {
  const { id, status, sandbox, agentSessionId } = run
  if (!isTerminal(status))
    return no('conflict', `${id} is ${status}: wait for its end before opening its session`)
  if (facts.followUpStarting)
    return no('conflict', `a follow-up of ${id} is starting: wait for its end before opening its session`)
  if (isReclaimed(sandbox, facts)) return no('gone', `the sandbox of ${id} is gone: ${goneReason(sandbox)}`)
  if (sandbox.id !== undefined && facts.worker === undefined)
    return no('gone', `the sandbox of ${id} is gone: the worker that held it is enrolled no more`)
  if (agentSessionId === undefined || isOfOtherAgent(run))
    return no(
      'invalid',
      `${id} has no session to go on with: its agent began none, or is not ${AGENTS[RESUMABLE_AGENT].displayName}`,
    )
  if (facts.worker === undefined) return no('gone', `${id} has left no sandbox`)
  if (!facts.worker.online)
    return no(
      'conflict',
      `worker ${printable(facts.worker.name)} holds the sandbox of ${id} and is not connected: start the worker, or its supervisor again, and try again`,
    )
  return yes({ sessionId: agentSessionId })
}

/** A run of an earlier version may hold what its worker called a session. */
const isOfOtherAgent = ({ agent }: Run): boolean =>
  agent?.provider !== undefined && !AGENTS[agent.provider].isResumable

function isReclaimed({ id, retainedUntil }: Run['sandbox'], { booted, now }: ResumeFacts): boolean {
  if (booted || retainedUntil === undefined) return false
  return id === undefined || now >= Date.parse(retainedUntil)
}

const goneReason = ({ id }: Run['sandbox']): string =>
  id === undefined ? 'it was discarded, or its worker took the disk back' : 'it is kept no longer'

function inUse({ id }: Run): Refused {
  return no('conflict', `the sandbox of ${id} is in use: close its terminals or release it first`)
}

function activeRunMessage(ticket: Ticket, activeRun: string): string {
  return `ticket ${printable(ticket.identifier)} has an active run, ${activeRun}: wait for its end or cancel it`
}

function noSandbox({ id, sandbox }: Run): Result<void> {
  return sandbox.retainedUntil === undefined
    ? no('conflict', `${id} has left no sandbox to discard`)
    : no('gone', `the sandbox of ${id} is gone already`)
}

export interface ExpiryFacts {
  readonly workerId: string
  /** Until when the worker retains the sandbox, by its own record. */
  readonly retainedUntil: string
  /** Wall milliseconds. */
  readonly now: number
}

/**
 * Whether a worker may discard a retained sandbox that may hold unpushed work. For the holder of the run's sandbox the
 * run's record counts too, which is of an earlier attempt where the host never heard of the last one's end; another
 * worker has the sandbox of an attempt that is over. The host may have forgotten a run that it does not know, so the
 * sandbox of such a run stays.
 */
export function mayDiscardExpired(run: Run | undefined, facts: ExpiryFacts): boolean {
  if (run === undefined) return false
  const { sandbox, status } = run
  const isHolder = sandbox.workerId === facts.workerId
  if (isHolder && !isTerminal(status)) return false
  const times = [facts.retainedUntil, ...(isHolder ? [sandbox.retainedUntil ?? facts.retainedUntil] : [])]
  return times.every((time) => Date.parse(time) <= facts.now)
}

export interface FollowUpFacts {
  /** The run's pull request at the current code host; refused when either is missing. */
  readonly pull: Result<PullReference>
  /** Another active run of the same ticket. */
  readonly competingRun: string | undefined
  /** A follow-up of this run is about to start. */
  readonly starting: boolean
  /** A person uses the run's sandbox. */
  readonly booted: boolean
}

/** Does not check whether the pull request is open, which only the code host knows. */
export function mayFollowUp(run: Run, facts: FollowUpFacts): Result<PullReference> {
  const { id, status } = run
  if (status === 'failed' || status === 'cancelled')
    return no('conflict', `${id} is ${status}, so there is nothing to follow up: retry it`)
  if (!isTerminal(status)) return no('conflict', `${id} is ${status}: wait for its end before a follow-up`)
  if (!facts.pull.ok) return facts.pull
  if (facts.competingRun !== undefined)
    return no('conflict', activeRunMessage(run.ticket, facts.competingRun))
  if (facts.starting) return no('conflict', `a follow-up of ${id} is starting already`)
  if (facts.booted) return inUse(run)
  return facts.pull
}

/** `state`: the pull request's state at the code host; undefined when the code host does not know it. */
export function mayFollowPull({ id }: Run, state: PullState | undefined): Result<void> {
  if (state === undefined)
    return no('invalid', `the code host does not know the pull request of ${id} any more`)
  if (state === 'merged') return no('conflict', `the pull request of ${id} is merged already`)
  if (state === 'closed') return no('conflict', `the pull request of ${id} is closed: reopen it first`)
  return yes(undefined)
}
