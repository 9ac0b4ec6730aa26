/**
 * `publishOrKeep` publishes finished work, and keeps the work that cannot be published.
 *
 * The work is remembered beside its sandbox before the first step, and forgotten when it is published. A refusal that
 * may pass gets the failure `publish`, so the host has the work published again. A lasting refusal ends the run, and a
 * person's retry publishes first. A damaged checkout, from which nothing can be collected, ends the run for good. The commits of work that is refused become an artifact, so they outlive this machine.
 */
import { isNativeError } from 'node:util/types'
import { no, type Refusal, type Result } from '../../core/result.ts'
import { isDiskFull } from '../git/disk-full.ts'
import { findDamage } from '../git/find-damage.ts'
import { deleteBundle, type WorkBundle } from '../git/work-bundle.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import type { SandboxFolders } from './sandboxes.ts'
import { type UnpublishedWork, unpublishedWork } from './unpublished-work.ts'
import type { PublishEnd, PublishedWork, PublishRequest } from './work-plan.ts'

/** No later try changes these, unless a person changes the work, the branch or the words. */
export const LASTING_KINDS: ReadonlySet<Refusal['kind']> = new Set(['conflict', 'invalid'])
/** The work itself is at fault, so it cannot be collected later either. */
const FAULTY_KINDS: ReadonlySet<Refusal['kind']> = new Set(['conflict', 'invalid', 'gone'])

export interface WorkToPublish {
  readonly unpublished: UnpublishedWork
  /** An earlier execution has left the work in this sandbox, and remembered it. */
  readonly isLeft: boolean
  /** The commit at which the work starts. */
  readonly base: string
}

export async function publishOrKeep(
  { gitSources }: Pick<ExecutorDependencies, 'gitSources'>,
  { unpublished: { isHookDue, areOutputsDue: _, ...unpublished }, isLeft, base }: WorkToPublish,
  request: PublishRequest,
  publish: () => Promise<Result<PublishedWork | undefined>>,
): Promise<PublishEnd> {
  const { folders } = request.session
  // A full disk is no reason to keep the work from the code host.
  const isSaved =
    (isLeft && isHookDue !== true) || (await isWritten(unpublishedWork.save(folders, unpublished)))
  const published = await publish().catch((error: unknown) =>
    no(isDiskFull(error) ? 'unavailable' : 'failed', messageOf(error)),
  )
  if (published.ok) {
    await unpublishedWork.forget(folders)
    await deleteBundle(folders)
    return { published, isUnpublished: false }
  }
  if (!isSaved) await saveUnknown(folders, unpublished)
  const { refusal } = published
  // An execution that was stopped says nothing about the work.
  if (!request.mayContinue()) return { published, isUnpublished: true }
  // Only the comment about pushed commits is missing.
  if (refusal.failure === 'publish') return { published, isUnpublished: true }
  const start = { branch: unpublished.branch, base }
  const bundle = await gitSources.bundle(folders, start)
  // Work that was collected can be published, whatever the checkout is like.
  const isCheckoutAtFault = refusal.kind === 'failed' && bundle.ok && bundle.value === undefined
  const damage = isCheckoutAtFault ? await findDamage(request.session, start) : undefined
  if (damage !== undefined && request.mayContinue()) {
    await unpublishedWork.forget(folders)
    const reason = `the repository in the sandbox is damaged, so no retry can publish its work: ${damage}`
    return { published: no('gone', reason), isUnpublished: false }
  }
  const isCollected = isLeft || (bundle.ok && bundle.value !== undefined)
  if (!isCollected && FAULTY_KINDS.has(refusal.kind)) {
    await unpublishedWork.forget(folders)
    return { published, isUnpublished: false }
  }
  await sendNewBundle(bundle, request)
  return { published: { ok: false, refusal: judge(refusal, isCollected) }, isUnpublished: true }
}

/** An earlier note of this work, from the end of its agent, says enough. One that cannot be read is replaced, if it can be. */
async function saveUnknown(folders: SandboxFolders, unpublished: UnpublishedWork): Promise<void> {
  const note = await unpublishedWork.read(folders)
  if (!note.ok) await isWritten(unpublishedWork.save(folders, unpublished))
  else if (note.value === undefined) await unpublishedWork.save(folders, unpublished)
}

/** The host keeps the bundle that it has until it gets a newer one. */
async function sendNewBundle(
  bundle: Result<WorkBundle | undefined>,
  { session, addBundle, mayContinue }: PublishRequest,
): Promise<void> {
  const note = await unpublishedWork.read(session.folders)
  const known = note.ok ? note.value : undefined
  if (!bundle.ok) session.log(`its commits are not among its artifacts: ${bundle.refusal.message}`)
  if (!bundle.ok || bundle.value === undefined || !mayContinue()) return
  if (note.ok && known === undefined) return
  const { head, path } = bundle.value
  // Without the note the host gets the same bundle once more.
  if (known?.bundled !== head && (await addBundle(path)) && known !== undefined)
    await isWritten(unpublishedWork.save(session.folders, { ...known, bundled: head }))
}

const isWritten = (written: Promise<void>): Promise<boolean> =>
  written.then(
    () => true,
    () => false,
  )

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))

function judge({ failure, ...refusal }: Refusal, isCollected: boolean): Refusal {
  if (refusal.keys !== undefined) return { ...refusal, failure: 'publish' }
  const mayPass = failure !== undefined || !LASTING_KINDS.has(refusal.kind)
  const isAgain = isCollected ? mayPass : failure !== undefined || refusal.kind === 'unavailable'
  return isAgain ? { ...refusal, failure: 'publish' } : refusal
}
