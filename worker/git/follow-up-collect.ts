/**
 * `collectFollowUp` commits the work of a follow-up inside, imports it outside, and marks the commit there with the
 * follow-up's seal. An unfinished rebase or remaining conflict markers are refused, so that they are never pushed.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import type { JobPull } from '../../protocol/frames.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { createRunSecretSearch } from '../secrets/run-secrets.ts'
import { BUNDLE_FILE, INSIDE_MS_MAX, importWork, leftoverMessage, withOmittedFiles } from './collect.ts'
import { type FollowUpContext, type FollowUpGitPorts, parseAnswers } from './follow-up-context.ts'
import { filesWithMarkers } from './follow-up-markers.ts'
import { COLLECT_FOLLOW_UP_SCRIPT } from './follow-up-scripts.ts'
import { refuseCollecting } from './git-errors.ts'
import { COMMITTER, EXCHANGE_INSIDE, failureOf, scriptCommand } from './git-inside-sandbox.ts'
import type { CollectedWork, FollowUpStart } from './git-ports.ts'
import { runRepositoryPath } from './run-repository.ts'
import { sealCommit } from './seal-commit.ts'
import { forgetHead, keepHead } from './work-bundle.ts'

export type CollectedFollowUp = CollectedWork & { readonly isContained: boolean }

const NO_CHANGES = { commits: 0, diff: { files: 0, additions: 0, deletions: 0, text: '' } }

const REFUSALS: Readonly<Record<string, (pull: JobPull) => string>> = {
  unfinished: ({ baseBranch }) =>
    `the rebase onto ${baseBranch} was not finished, so nothing was pushed; finish it in the sandbox, or follow up again`,
  unmerged: () =>
    'files are still in conflict, so nothing was pushed; resolve them in the sandbox, or follow up again',
  astray: ({ baseBranch }) =>
    `the branch was not rebased onto ${baseBranch} in the end, so nothing was pushed; look at the run's log, or follow up again`,
}

export async function collectFollowUp(
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
