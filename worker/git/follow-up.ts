/**
 * A pull request's branch on its way into a sandbox, rebased there, and back onto the code host.
 *
 * What is on the code host decides where the work begins, at the moment when it begins and again when somebody pushed
 * meanwhile. A commit that a follow-up pushes bears the follow-up's seal in its header: whoever carries it out once more,
 * here or on another worker, finds it there and pushes nothing. So one follow-up is one push, wherever it was cut off.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { JobPull } from '../../protocol/frames.ts'
import { withoutUser } from './address.ts'
import { INSIDE_MS_MAX } from './collect.ts'
import { followUpHeads, type Heads } from './follow-up-branches.ts'
import { collectFollowUp } from './follow-up-collect.ts'
import {
  type BothFolders,
  commitIn,
  type FollowUpErrand,
  type FollowUpParts,
  mountsOf,
  type Said,
  saidIn,
  withBoth,
} from './follow-up-context.ts'
import { BRING, GO_ONTO } from './follow-up-scripts.ts'
import { accountOf } from './git-errors.ts'
import { COMMITTER, faultOf, scriptCommand } from './git-inside-sandbox.ts'
import type { Begun, FollowedUp } from './git-ports.ts'
import type { RepositoryCache } from './mirror-cache.ts'
import { commitAt, mayPush, pushOnce } from './push.ts'
import type { PullPlaces } from './resolve-remote.ts'
import { isPassing, patiently, publishing, type Tried } from './retry.ts'

type Mode = 'kept' | 'aside' | 'fresh' | 'again'

const CHECKOUT_MS_MAX = 15 * 60_000
const KEPT_SAID_MAX = 10
const FILES_SAID_MAX = 50
/** How often somebody may push while we do, before it is left to people. */
const PUSHES_MAX = 3

const PUSHED = { state: 'pushed', tip: undefined, files: [], kept: [] } as const

// ---- beginning -----------------------------------------------------------------------------------------------------

export async function beginFollowUp(
  { git, cache }: FollowUpParts,
  errand: FollowUpErrand,
  isKept: boolean,
  signal: AbortSignal,
): Promise<Result<Begun>> {
  return withBoth(cache, errand, signal, async (folders) => {
    const heads = await followUpHeads(git, folders, errand)
    if (!heads.ok) return heads
    const { isPushed, ...commits } = heads.value
    if (isPushed) return yes({ ...commits, ...PUSHED, isFresh: !isKept })
    const open = await isOpen(git, errand, folders, commits, signal)
    if (!open.ok) return open
    const first = await brought(errand, folders, commits, isKept ? 'kept' : 'fresh')
    if (first.ok) return begunOf(errand, { ...commits, isFresh: !isKept }, first.value)
    if (signal.aborted) return first
    // What the agent made of its checkout is in the way, or the worker's own copy is damaged.
    const isDamaged = accountOf('', first.refusal.message).trouble === 'corrupt'
    if (!isKept && !isDamaged) return first
    const renewed = isDamaged ? await renew(cache, errand.places, signal) : yes(undefined)
    if (!renewed.ok) return renewed
    const second = await brought(errand, folders, commits, isKept ? 'aside' : 'again')
    return second.ok ? begunOf(errand, { ...commits, isFresh: true }, second.value) : second
  })
}

/** A fork is somebody else's. An agent's work that could not be pushed there in the end is not begun. */
async function isOpen(
  git: FollowUpParts['git'],
  { pull, places }: FollowUpErrand,
  folders: BothFolders,
  { head }: Heads,
  signal: AbortSignal,
): Promise<Result<void>> {
  if (places.head === places.base) return yes(undefined)
  const push = { folder: folders.head, wanted: places.head, branch: pull.headBranch, head, signal }
  const may = await mayPush(git, push)
  if (may.ok) return may
  return no(
    'forbidden',
    `${pull.headRemote} is a fork that cannot be pushed to: have its owner allow edits by maintainers on the pull request, or follow this one up by hand (${may.refusal.message})`,
  )
}

async function renew(cache: RepositoryCache, { base, head }: PullPlaces, signal: AbortSignal) {
  const renewed = await cache.renew(base, signal)
  return renewed.ok && head !== base ? cache.renew(head, signal) : renewed
}

/** What the script says. */
async function brought(
  errand: FollowUpErrand,
  folders: BothFolders,
  { base, head }: Heads,
  mode: Mode,
): Promise<Result<Said>> {
  const { pull, number, places } = errand
  const origin = withoutUser(places.base.remote.address)
  const { name, email } = COMMITTER
  const result = await errand.inside.run(
    scriptCommand(
      BRING,
      mode,
      pull.baseBranch,
      base,
      pull.headBranch,
      head,
      origin,
      name,
      email,
      String(number),
    ),
    { mounts: mountsOf(folders), timeoutMs: CHECKOUT_MS_MAX },
  )
  const fault = faultOf(result)
  if (fault === undefined) return yes(saidIn(result.output))
  return no('failed', `checking out ${pull.headBranch} of ${pull.headRemote} failed: ${fault}`)
}

function begunOf({ pull }: FollowUpErrand, start: Heads & Pick<Begun, 'isFresh'>, said: Said): Result<Begun> {
  const [state] = said('state')
  if (state === 'unrelated') {
    return no(
      'conflict',
      `the branch ${pull.headBranch} shares no history with ${pull.baseBranch}, so it cannot be rebased; follow this one up by hand`,
    )
  }
  if (state !== 'level' && state !== 'rebased' && state !== 'conflict')
    return no('failed', `checking out ${pull.headBranch} did not say how it ended; try again`)
  const kept = [...said('kept'), ...said('aside')].slice(0, KEPT_SAID_MAX)
  const files = said('file').slice(0, FILES_SAID_MAX)
  const tip = commitIn(said('tip'))
  const merges = said('merge').filter((one) => commitIn([one]) !== undefined)
  return yes({ ...start, state, tip, files, kept, ...(merges.length === 0 ? {} : { merges }) })
}

// ---- pushing -------------------------------------------------------------------------------------------------------

const NOTHING_PUSHED = { pushed: undefined, diff: undefined }

export async function pushFollowUp(
  parts: FollowUpParts,
  errand: FollowUpErrand,
  begun: Begun,
  fence: () => boolean,
  signal: AbortSignal,
): Promise<Result<FollowedUp>> {
  let from = begun
  for (let tries = 1; ; tries++) {
    const collected = await collectFollowUp(parts, errand, from)
    if (!collected.ok) return collected
    const { head, diff, isContained } = collected.value
    if (head === undefined) return yes({ ...NOTHING_PUSHED, isContained })
    const pushed = await pushedOver(parts, errand, { head, expected: from.head, fence, signal })
    if (!pushed.ok) return pushed
    if (pushed.value === 'pushed') return yes({ pushed: head, isContained: false, diff })
    if (tries === PUSHES_MAX) return overtaken(errand.pull)
    const moved = await goOnto(parts, errand, from, signal)
    if (!moved.ok) return moved
    // Another attempt of this very follow-up came first.
    if (moved.value.state === 'pushed') return yes({ pushed: moved.value.head, isContained: false, diff })
    from = moved.value
  }
}

interface Pushing {
  readonly head: string
  readonly expected: string
  readonly fence: () => boolean
  readonly signal: AbortSignal
}

function pushedOver(
  parts: FollowUpParts,
  { pull, places, folders, told }: FollowUpErrand,
  { head, expected, fence, signal }: Pushing,
): Promise<Result<'pushed' | 'overtaken'>> {
  const attempt = async (): Promise<Tried<'pushed' | 'overtaken'>> => {
    if (signal.aborted || !fence()) return { answer: ended, passes: false }
    const push = { wanted: places.head, branch: pull.headBranch, head, expected, desk: folders.desk, signal }
    const done = await pushOnce(parts.git, push)
    if (done.is === 'pushed') return { answer: yes('pushed'), passes: false }
    if (done.is === 'refused') return done
    const there = await commitAt(parts.git, places.head.remote, pull.headBranch, signal)
    if (!there.ok) return { answer: there, passes: isPassing(there.refusal.kind) }
    // An earlier try of ours that came through without our hearing of it.
    return { answer: yes(there.value === head ? 'pushed' : 'overtaken'), passes: false }
  }
  return patiently(parts, signal, attempt, publishing(told))
}

const ended = no('conflict', 'the lease is gone, so nothing more is pushed; the work stays in its sandbox')

/** To where somebody else has brought the branch meanwhile. */
async function goOnto(
  { git, cache }: FollowUpParts,
  errand: FollowUpErrand,
  from: Begun,
  signal: AbortSignal,
): Promise<Result<Begun>> {
  return withBoth<Begun>(cache, errand, signal, async (folders) => {
    const heads = await followUpHeads(git, folders, errand)
    if (!heads.ok) return heads
    const { base, head, isPushed } = heads.value
    if (isPushed) return yes({ ...from, head, state: 'pushed' })
    const { pull, inside } = errand
    const { name, email } = COMMITTER
    const result = await inside.run(
      scriptCommand(
        GO_ONTO,
        pull.baseBranch,
        base,
        from.base,
        pull.headBranch,
        head,
        from.head,
        from.tip ?? '',
        name,
        email,
      ),
      { mounts: mountsOf(folders), timeoutMs: INSIDE_MS_MAX },
    )
    const fault = faultOf(result)
    if (fault !== undefined) return no('failed', `going on from what was pushed meanwhile failed: ${fault}`)
    const said = saidIn(result.output)
    if (said('state')[0] !== 'moved') return overtaken(pull)
    const newBase = commitIn(said('base')) === base ? base : from.base
    return yes({ ...from, head, base: newBase, tip: commitIn(said('tip')) })
  })
}

function overtaken({ headBranch, headRemote }: JobPull) {
  return no(
    'conflict',
    `somebody else changed ${headBranch} of ${headRemote} in the meantime, and the two do not go together by themselves; it is left as they made it: follow up again to go on from there`,
  )
}
