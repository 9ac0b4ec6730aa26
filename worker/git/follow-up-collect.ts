/**
 * What a follow-up leaves: committed inside, sealed as the follow-up's, and brought out. A rebase that is not over,
 * or has left its markers behind, is nothing that anybody should see.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import type { JobPull } from '../../protocol/frames.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { BUNDLE, broughtOut, INSIDE_MS_MAX, messageFor, withLeftOut } from './collect.ts'
import { type FollowUpErrand, type FollowUpParts, saidIn } from './follow-up-context.ts'
import { filesWithMarkers } from './follow-up-markers.ts'
import { COLLECT_FOLLOW_UP } from './follow-up-scripts.ts'
import { COMMITTER, EXCHANGE_INSIDE, faultOf, scriptCommand } from './git-inside-sandbox.ts'
import type { Begun, Collected } from './git-ports.ts'

export type CollectedFollowUp = Collected & { readonly isContained: boolean }

const NONE = { commits: 0, diff: { files: 0, additions: 0, deletions: 0, text: '' } }

const REFUSED: Readonly<Record<string, (pull: JobPull) => string>> = {
  unfinished: ({ baseBranch }) =>
    `the rebase onto ${baseBranch} was not finished, so nothing was pushed; finish it in the sandbox, or follow up again`,
  unmerged: () =>
    'files are still in conflict, so nothing was pushed; resolve them in the sandbox, or follow up again',
  astray: ({ baseBranch }) =>
    `the branch was not rebased onto ${baseBranch} in the end, so nothing was pushed; look at the run's log, or follow up again`,
}

export async function collectFollowUp(
  parts: FollowUpParts,
  errand: FollowUpErrand,
  begun: Begun,
): Promise<Result<CollectedFollowUp>> {
  const { pull, folders, places } = errand
  await rm(join(folders.exchange, BUNDLE), { recursive: true, force: true })
  const result = await bundled(errand, begun)
  const fault = faultOf(result)
  if (fault !== undefined) return no('failed', `collecting the work failed: ${fault}`)
  const [state = ''] = saidIn(result.output)('state')
  const refused = Object.hasOwn(REFUSED, state) ? REFUSED[state] : undefined
  if (refused !== undefined) return no('conflict', refused(pull))
  if (state !== 'new') return yes({ ...NONE, isContained: state === 'nothing' })
  const from = { base: begun.base }
  const work = await broughtOut(parts, { folders, wanted: places.base }, from, places.head)
  if (!work.ok) return work
  const marked = await filesWithMarkers(parts.git, folders.desk, work.value.head ?? '', begun)
  if (marked.length === 0) return yes({ ...withLeftOut(work.value, result.output), isContained: false })
  return no(
    'conflict',
    `conflict markers are left in ${marked.map((file) => printable(file)).join(', ')}, so nothing was pushed; resolve them in the sandbox, or follow up again`,
  )
}

function bundled({ job, pull, seal, folders, inside }: FollowUpErrand, begun: Begun) {
  const { name, email } = COMMITTER
  const message = messageFor(job.run.ticket)
  return inside.run(
    scriptCommand(
      COLLECT_FOLLOW_UP,
      begun.base,
      pull.headBranch,
      begun.head,
      message,
      name,
      email,
      seal,
      BUNDLE,
    ),
    {
      mounts: [{ from: folders.exchange, to: EXCHANGE_INSIDE, writable: true }],
      timeoutMs: INSIDE_MS_MAX,
    },
  )
}
