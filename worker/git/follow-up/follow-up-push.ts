/**
 * `pushFollowUp` pushes the work of a follow-up to the branch of its pull request, over the commit that it began from.
 * Reviewers may ask for commits to be joined or dropped, so the work may leave out earlier ones.
 *
 * When somebody else pushed meanwhile, the work is moved onto those commits and pushed again, a limited number of times.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../../core/result.ts'
import type { JobPull } from '../../../protocol/frames.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { refuseKeys } from '../../secrets/key-forms.ts'
import { createRunSecretSearch } from '../../secrets/run-secrets.ts'
import { withCheckoutSource } from '../checkout/checkout-source.ts'
import { forgetHead, keepHead, runRepositoryPath } from '../checkout/run-repository.ts'
import { type Git, withSignal } from '../git.ts'
import { refuseCollecting } from '../git-errors.ts'
import { COMMITTER, EXCHANGE_INSIDE, failureOf, scriptCommand } from '../git-inside-sandbox.ts'
import type {
  CollectedWork,
  FollowUpPushRequest,
  FollowUpPushResult,
  FollowUpStart,
  SandboxCommandResult,
} from '../git-ports.ts'
import { pushOnce, readRemoteCommit } from '../publish/push.ts'
import { type Attempt, isTransientRefusal, whilePublishing, withRetries } from '../retry.ts'
import { BUNDLE_FILE, INSIDE_MS_MAX, importWork, leftoverMessage, withOmittedFiles } from '../work/collect.ts'
import { sealCommit } from '../work/rewrite-commits.ts'
import {
  describeSource,
  type FollowUpContext,
  type FollowUpGitPorts,
  parseAnswers,
  parseCommit,
  readBranchHeads,
  withBothMirrors,
} from './follow-up-context.ts'
import { COLLECT_FOLLOW_UP_SCRIPT, MOVE_ONTO_SCRIPT } from './follow-up-scripts.ts'

/** The number of attempts to push while other people push to the same branch. */
const PUSHES_MAX = 3

const NOTHING_PUSHED = { pushed: undefined, diff: undefined }

export async function pushFollowUp(
  ports: FollowUpGitPorts,
  context: FollowUpContext,
  {
    start,
    onMoved,
    within = (step) => step(signal),
  }: Pick<FollowUpPushRequest, 'start' | 'onMoved' | 'within'>,
  mayContinue: () => boolean,
  signal: AbortSignal,
): Promise<Result<FollowUpPushResult>> {
  let from = start
  for (let tries = 1; ; tries++) {
    const begun = from
    const collected = await within((time) =>
      collectFollowUp({ ...ports, git: withSignal(ports.git, time) }, context, begun, time),
    )
    if (!collected.ok) return collected
    const { head, diff, isContained, heldBack, keys = [] } = collected.value
    const allowed = refuseKeys(context.job, keys)
    if (!allowed.ok) return allowed
    const held = heldBack === undefined ? {} : { heldBack }
    if (head === undefined) return yes({ ...NOTHING_PUSHED, isContained, ...held })
    const pushed = await pushWithLease(ports, context, { head, expected: from.head, mayContinue, signal })
    if (!pushed.ok) return pushed
    if (pushed.value === 'pushed') return yes({ pushed: head, isContained: false, diff, ...held })
    if (tries === PUSHES_MAX) return branchOvertaken(context.pull)
    const moved = await moveOnto(ports, context, from, signal)
    if (!moved.ok) return moved
    // Another attempt of the same follow-up has already pushed.
    if (moved.value.state === 'pushed')
      return yes({ pushed: moved.value.head, isContained: false, diff, ...held })
    from = moved.value
    await onMoved?.(from)
  }
}

interface PushAttempt {
  readonly head: string
  readonly expected: string
  readonly mayContinue: () => boolean
  readonly signal: AbortSignal
}

function pushWithLease(
  ports: FollowUpGitPorts,
  { job, pull, repositories, folders, logToRun }: FollowUpContext,
  { head, expected, mayContinue, signal }: PushAttempt,
): Promise<Result<'pushed' | 'overtaken'>> {
  const attempt = async (): Promise<Attempt<'pushed' | 'overtaken'>> => {
    if (signal.aborted || !mayContinue()) return { result: leaseGone, isTransient: false }
    const push = {
      repository: repositories.head,
      branch: pull.headBranch,
      head,
      expected,
      staging: folders.staging,
      signal,
    }
    const done = await pushOnce(ports.git, push)
    if (done.is === 'pushed') return { result: yes('pushed'), isTransient: false }
    if (done.is === 'refused') return done
    const remoteCommit = await readRemoteCommit(ports.git, repositories.head.remote, pull.headBranch, signal)
    if (!remoteCommit.ok)
      return { result: remoteCommit, isTransient: isTransientRefusal(remoteCommit.refusal.kind) }
    // The branch already has our commit if an earlier attempt succeeded but its response was lost.
    return { result: yes(remoteCommit.value === head ? 'pushed' : 'overtaken'), isTransient: false }
  }
  return withRetries(ports, signal, attempt, whilePublishing(job, logToRun))
}

const leaseGone = no(
  'conflict',
  'the lease is gone, so nothing more is pushed; the work stays in its sandbox',
)

/** Moves the work onto the commits that somebody else pushed meanwhile. */
async function moveOnto(
  { git, cache }: FollowUpGitPorts,
  context: FollowUpContext,
  from: FollowUpStart,
  signal: AbortSignal,
): Promise<Result<FollowUpStart>> {
  return withBothMirrors<FollowUpStart>(cache, context, signal, async (folders) => {
    const heads = await readBranchHeads(git, folders, context)
    if (!heads.ok) return heads
    const { base, head, isPushed } = heads.value
    if (isPushed) return yes({ ...from, head, state: 'pushed' })
    const { pull, sandbox } = context
    const { name, email } = COMMITTER
    const command = scriptCommand(
      MOVE_ONTO_SCRIPT,
      pull.baseBranch,
      base,
      from.base,
      pull.headBranch,
      head,
      from.head,
      from.tip ?? '',
      name,
      email,
    )
    const source = describeSource(context, folders, { base, head }, signal)
    const { result } = await withCheckoutSource<SandboxCommandResult>(git, source, async (mounts) => {
      const ran = await sandbox.run(command, { mounts, timeoutMs: INSIDE_MS_MAX })
      return { result: yes(ran) }
    })
    if (!result.ok) return result
    const fault = failureOf(result.value)
    if (fault !== undefined) return no('failed', `going on from what was pushed meanwhile failed: ${fault}`)
    const answers = parseAnswers(result.value.output)
    if (answers('state')[0] !== 'moved') return branchOvertaken(pull)
    const newBase = parseCommit(answers('base')) === base ? base : from.base
    const isHeadOurs = answers('branch')[0] === 'ours'
    return yes({ ...from, head, base: newBase, tip: parseCommit(answers('tip')), isHeadOurs })
  })
}

function branchOvertaken({ headBranch, headRemote }: JobPull) {
  return no(
    'conflict',
    `somebody else changed ${headBranch} of ${headRemote} in the meantime, and the two do not go together by themselves; it is left as they made it: follow up again to go on from there`,
  )
}

// ---- collecting ----------------------------------------------------------------------------------------------------

type CollectedFollowUp = CollectedWork & { readonly isContained: boolean }

const NO_CHANGES = { commits: 0, diff: { files: 0, additions: 0, deletions: 0, text: '' } }

const REFUSALS: Readonly<Record<string, (pull: JobPull) => string>> = {
  unfinished: ({ baseBranch }) =>
    `the rebase onto ${baseBranch} was not finished, so nothing was pushed; finish it in the sandbox, or follow up again`,
  unmerged: () =>
    'files are still in conflict, so nothing was pushed; resolve them in the sandbox, or follow up again',
  astray: ({ baseBranch }) =>
    `the branch was not rebased onto ${baseBranch} in the end, so nothing was pushed; look at the run's log, or follow up again`,
}

/**
 * Commits the work of a follow-up inside, imports it outside, and marks the commit there with the follow-up's seal. An
 * unfinished rebase or remaining conflict markers are refused, so that they are never pushed.
 */
async function collectFollowUp(
  ports: FollowUpGitPorts,
  context: FollowUpContext,
  start: FollowUpStart,
  signal: AbortSignal | undefined,
): Promise<Result<CollectedFollowUp>> {
  const { pull, folders, repositories } = context
  await rm(join(folders.exchange, BUNDLE_FILE), { recursive: true, force: true })
  await forgetHead(folders.staging, pull.headBranch)
  const result = await bundleInside(context, start, signal)
  const fault = failureOf(result)
  if (fault !== undefined) return refuseCollecting(fault)
  const [state = ''] = parseAnswers(result.output)('state')
  const refused = Object.hasOwn(REFUSALS, state) ? REFUSALS[state] : undefined
  if (refused !== undefined) return no('conflict', refused(pull))
  if (state !== 'new') return yes({ ...NO_CHANGES, isContained: state === 'nothing' })
  const from = { base: start.base, pushedBefore: start.head }
  const search = createRunSecretSearch(context.job, ports.ownSecrets)
  const workspace = { job: context.job, folders, repository: repositories.base, search }
  const work = await importWork(ports, workspace, from, repositories.head)
  if (!work.ok) return work
  const { head } = work.value
  const marked = await filesWithMarkers(ports.git, folders.staging, head ?? '', start)
  if (marked.length === 0)
    return sealWork(ports, context, { ...withOmittedFiles(work.value, result.output), isContained: false })
  return no(
    'conflict',
    `conflict markers are left in ${marked.map((file) => printable(file)).join(', ')}, so nothing was pushed; resolve them in the sandbox, or follow up again`,
  )
}

async function sealWork(
  { git }: FollowUpGitPorts,
  { folders: { staging }, pull, seal }: FollowUpContext,
  work: CollectedFollowUp,
): Promise<Result<CollectedFollowUp>> {
  if (work.head === undefined) return yes(work)
  const sealed = await sealCommit(git, { folder: runRepositoryPath(staging), staging }, work.head, seal)
  if (!sealed.ok) return sealed
  await keepHead(staging, pull.headBranch, sealed.value)
  return yes({ ...work, head: sealed.value })
}

function bundleInside(
  { job, pull, folders, sandbox }: FollowUpContext,
  start: FollowUpStart,
  signal: AbortSignal | undefined,
) {
  const { name, email } = COMMITTER
  const message = leftoverMessage(job.run.ticket)
  return sandbox.run(
    scriptCommand(
      COLLECT_FOLLOW_UP_SCRIPT,
      start.base,
      pull.headBranch,
      start.isHeadOurs === true ? '' : start.head,
      message,
      name,
      email,
      BUNDLE_FILE,
    ),
    {
      mounts: [{ from: folders.exchange, to: EXCHANGE_INSIDE, writable: true }],
      timeoutMs: INSIDE_MS_MAX,
      ...(signal === undefined ? {} : { signal }),
    },
  )
}

// ---- conflict markers ----------------------------------------------------------------------------------------------

const SEARCH_MS_MAX = 2 * 60_000
const FILES_MAX = 200
const FILES_NAMED_MAX = 5
const MARKER_START = '^<{7} '
const MARKER_END = '^>{7} '

/**
 * Finds files in which the work left conflict markers. Markers that the pull request or its base already contained do
 * not count, because some files are about markers. Runs outside, in the run repository.
 *
 * A search that fails or times out counts as no markers: the rebase and the agent both report completion.
 */
async function filesWithMarkers(
  git: Git,
  staging: string,
  commit: string,
  { base, head }: { readonly base: string; readonly head: string },
): Promise<readonly string[]> {
  const folder = runRepositoryPath(staging)
  const run = async (args: readonly string[]): Promise<readonly string[] | undefined> => {
    const ran = await git.run({ args, folder, isUntrusted: true, timeoutMs: SEARCH_MS_MAX })
    if (!ran.ok || (ran.value.code !== 0 && ran.value.code !== 1)) return undefined
    return ran.value.output.split('\0').filter((name) => name !== '')
  }
  const touched = (from: string) =>
    run([
      'diff',
      '--no-ext-diff',
      '--no-textconv',
      '--no-renames',
      '--name-only',
      '-z',
      `-G${MARKER_START}`,
      from,
      commit,
    ])
  const sinceBase = (await touched(base)) ?? []
  if (sinceBase.length === 0) return []
  const sinceHead = await touched(head)
  const both = sinceBase.filter((name) => sinceHead?.includes(name) ?? true).slice(0, FILES_MAX)
  if (both.length === 0) return []
  const paths = both.map((name) => `:(literal)${name}`)
  const grep = [
    'grep',
    '-z',
    '--name-only',
    '-I',
    '--all-match',
    '-E',
    '-e',
    MARKER_START,
    '-e',
    MARKER_END,
    commit,
    '--',
  ]
  const found = (await run([...grep, ...paths])) ?? []
  return found.map((name) => name.slice(commit.length + 1)).slice(0, FILES_NAMED_MAX)
}
