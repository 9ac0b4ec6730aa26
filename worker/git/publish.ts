/**
 * The last steps, which others can see: the push, and the pull request.
 *
 * A push names the commit that it expects to replace, so neither a person's work nor a newer attempt's is overwritten.
 * Before each step the lease is asked for. Every step may be repeated after a crash: what is there already is found
 * and taken for done.
 */
import type { CodeHost, NewPullRequest, OpenPullRequest } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { Job } from '../../protocol/frames.ts'
import type { Git } from './git.ts'
import type { CheckedOut, Published, RunFolders, TellWhy } from './git-ports.ts'
import type { Wanted } from './mirror-cache.ts'
import { pullBody, pullTitle } from './pull-request-text.ts'
import { ABSENT, commitAt, pushOnce } from './push.ts'
import { isPassing, type Patience, patiently, publishing, type Tried } from './retry.ts'
import { deskRepository } from './run-repository.ts'

export interface PublishParts extends Patience {
  readonly git: Git
}

export interface Delivery {
  readonly job: Job
  readonly leaseId: string
  readonly folders: RunFolders
  readonly from: CheckedOut
  readonly head: string
  readonly summary: string
  readonly wanted: Wanted
  readonly codehost: CodeHost
  readonly fence: () => boolean
  readonly signal: AbortSignal
  readonly told?: TellWhy
}

const LOOK_MS_MAX = 60_000
/** Somebody opened one since we looked: then it is found, if not at once. */
const CONFLICTS_MAX = 3

export async function publish(parts: PublishParts, delivery: Delivery): Promise<Result<Published>> {
  const expected = delivery.from.pushedBefore ?? ABSENT
  const { signal, told } = delivery
  const pushed = await patiently(parts, signal, () => push(parts.git, delivery, expected), publishing(told))
  if (!pushed.ok) return pushed
  const pull = await pullFor(parts, delivery)
  if (!pull.ok) return pull
  const { adopted, url, state } = pull.value
  return yes({ pushed: delivery.head, prUrl: url, prState: state, adopted })
}

// ---- pushing -------------------------------------------------------------------------------------------------------

async function push(git: Git, delivery: Delivery, expected: string): Promise<Tried<void>> {
  const { job, head, wanted, folders, signal } = delivery
  if (!mayGoOn(delivery)) return { answer: ended, passes: false }
  const pushed = await pushOnce(git, {
    wanted,
    branch: job.branch,
    head,
    expected,
    desk: folders.desk,
    signal,
  })
  if (pushed.is === 'pushed') return { answer: yes(undefined), passes: false }
  return pushed.is === 'overtaken' ? moved(git, delivery, expected) : pushed
}

/** Another commit is there than was expected. Whose it is decides. */
async function moved(git: Git, delivery: Delivery, expected: string): Promise<Tried<void>> {
  const { job, head, wanted, from, signal } = delivery
  const there = await commitAt(git, wanted.remote, job.branch, signal)
  if (!there.ok) return { answer: there, passes: isPassing(there.refusal.kind) }
  // An earlier try of ours that came through without our hearing of it.
  if (there.value === head) return { answer: yes(undefined), passes: false }
  const isFirstSurprise = expected === (from.pushedBefore ?? ABSENT)
  // An agent that may push has pushed a part of this work: nothing is lost by what goes on from there.
  if (isFirstSurprise && there.value !== undefined && (await isPartOf(git, delivery, there.value))) {
    return push(git, delivery, there.value)
  }
  return { answer: overtaken(job, there.value), passes: false }
}

async function isPartOf(git: Git, { folders, head, signal }: Delivery, commit: string): Promise<boolean> {
  const ran = await git.run({
    args: ['merge-base', '--is-ancestor', commit, head],
    folder: deskRepository(folders.desk),
    wary: true,
    timeoutMs: LOOK_MS_MAX,
    signal,
  })
  return ran.ok && ran.value.code === 0
}

function overtaken(job: Job, there: string | undefined) {
  const now = there === undefined ? 'is gone' : `stands at ${there.slice(0, 12)}`
  return no(
    'conflict',
    `somebody else changed the branch ${job.branch} in the meantime: it ${now} on the code host, and is left as it is; start the run again to go on from there`,
  )
}

// ---- the pull request ------------------------------------------------------------------------------------------------

type Pull = OpenPullRequest & { readonly adopted: boolean }

/** Looked for before each try to open one: the answer to an earlier try may have been lost. */
async function pullFor(parts: PublishParts, delivery: Delivery): Promise<Result<Pull>> {
  let tries = 0
  let conflicts = 0
  const attempt = async (): Promise<Tried<Pull>> => {
    const found = await find(delivery)
    if (!found.ok) return { answer: found, passes: isPassing(found.refusal.kind) }
    if (found.value !== undefined) {
      return { answer: yes({ ...found.value, adopted: tries === 0 }), passes: false }
    }
    if (!mayGoOn(delivery)) return { answer: ended, passes: false }
    tries += 1
    const opened = await delivery.codehost.openPull(orderOf(delivery))
    if (opened.ok) return { answer: yes({ ...opened.value, adopted: false }), passes: false }
    if (opened.refusal.kind === 'conflict') return { answer: opened, passes: ++conflicts < CONFLICTS_MAX }
    return { answer: opened, passes: isPassing(opened.refusal.kind) }
  }
  return patiently(parts, delivery.signal, attempt, publishing(delivery.told))
}

function find({ codehost, job }: Delivery): Promise<Result<OpenPullRequest | undefined>> {
  return codehost.findPull(job.repo.remote, job.branch, job.base)
}

function orderOf({ job, leaseId, summary }: Delivery): NewPullRequest {
  const { ticket, id } = job.run
  return {
    remote: job.repo.remote,
    head: job.branch,
    base: job.base,
    title: pullTitle(ticket),
    body: pullBody(ticket, summary, { runId: id, leaseId }),
    draft: job.codehost?.draftPulls ?? false,
  }
}

// ---- going on --------------------------------------------------------------------------------------------------------

const ended = no('conflict', 'the lease is gone, so nothing more is published; the work stays in its sandbox')

function mayGoOn({ fence, signal }: Delivery): boolean {
  return !signal.aborted && fence()
}
