/**
 * Finished work that is not published yet, as the worker remembers it beside the sandbox from the end of the agent until
 * the work is published. So a worker that died meanwhile knows what the sandbox holds, and publishes it without the agent.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Refusal, Refused } from '../../core/result.ts'
import type { Run, RunAgentChoice } from '../../protocol/run.ts'
import type { CheckedOut, FollowUpStart } from '../git/git-ports.ts'
import { SandboxNote } from './sandbox-note.ts'

/** A person has said so much about the run when its agent began. */
export interface Asked {
  readonly instructions: string
  readonly agent: RunAgentChoice
}

export interface UnpublishedWork {
  /** The repository and the branch that the job named. */
  readonly remote: string
  readonly branch: string
  /** The commits from which the work of a new run goes on. */
  readonly from?: CheckedOut
  readonly followUp?: {
    readonly id: string
    readonly start: FollowUpStart
    /** An agent was asked, so there is something to say on the pull request. */
    readonly isAsked: boolean
  }
  /** Absent in notes of earlier versions. */
  readonly asked?: Asked
  /** The agent's last message. */
  readonly summary: string
  /** The hook `afterAgent` of the repository has not come to its end. */
  readonly isHookDue?: true
  /** The host may lack artifacts and memories of the agent, which are in the sandbox still. */
  readonly areOutputsDue?: true
  /** The commit whose bundle the host has. */
  readonly bundled?: string
}

/**
 * undefined: the sandbox holds no finished work that is not published. Refused: it may hold such work, so no agent is
 * asked anew and nothing of it is deleted.
 */
export const unpublishedWork = new SandboxNote<UnpublishedWork>('unpublished.json', { flush: true })

export const askedOf = ({ instructions = '', agent = {} }: Pick<Run, 'instructions' | 'agent'>): Asked => ({
  instructions,
  agent,
})

/** Otherwise a person wants something else than what the sandbox holds. A note that does not say it is no answer to words. */
export const answers = (
  { asked = askedOf({}) }: UnpublishedWork,
  run: Parameters<typeof askedOf>[0],
): boolean => isDeepStrictEqual(asked, askedOf(run))

/** The host has the work published again. */
export const tryAgain = (refusal: Refusal): Refused => ({
  ok: false,
  refusal: { ...refusal, failure: 'publish' },
})
