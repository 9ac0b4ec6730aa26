/**
 * The work of a new run in which a later execution goes on: the checkout that an earlier one has made, and the session
 * of its agent. The worker remembers where the checkout began, so that going on needs no code host.
 */
import type { AgentExecutionRequest } from '../../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { AGENTS } from '../../../protocol/agents/registry.ts'
import type { AgentJob } from '../../../protocol/frames.ts'
import { openAgentFiles } from '../../agents/agent-files.ts'
import { failureOf, scriptCommand } from '../../git/git-inside-sandbox.ts'
import type { CheckedOut } from '../../git/git-ports.ts'
import { DROP_LEFT_LOCKS } from '../../git/work/collect.ts'
import { ARTIFACTS_INSIDE, OUT_INSIDE } from '../../sandbox/inside-paths.ts'
import type { NumberedFolders, Sandboxes } from '../disk/sandboxes.ts'
import type { SandboxSession } from '../sandbox-session.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { answers, SandboxNote, tryAgain, type UnpublishedWork, unpublishedWork } from './unpublished-work.ts'

/** The repository and branches that the job named, and where its checkout began. */
interface BegunCheckout {
  readonly remote: string
  readonly branch: string
  readonly base: string
  readonly from: CheckedOut
}

export interface BegunWork {
  readonly folders: NumberedFolders
  readonly from: CheckedOut
  /** The session in which the agent goes on; undefined when finished work has only to be published. */
  readonly sessionId: string | undefined
  /** The agent was done. */
  readonly left: UnpublishedWork | undefined
}

/** After a loss of power the run begins anew, so the file is not flushed. */
const begunCheckout = new SandboxNote<BegunCheckout>('checkout.json', { flush: false })

/** The git of a killed agent may have left locks. $1 the commit at which the work began */
const CHECK_SCRIPT = `
cd /work
state=$(git rev-parse --absolute-git-dir)
${DROP_LEFT_LOCKS}git rev-parse --quiet --verify 'HEAD^{commit}' >/dev/null
git cat-file -e "$1^{commit}"
git status --porcelain >/dev/null
`
const clearScript = (folders: string): string =>
  `chmod -R u+rwX ${folders}; find ${folders} -mindepth 1 -delete; mkdir -p ${ARTIFACTS_INSIDE}`
/** Deletes the outputs of an earlier execution, which it has already reported. */
export const CLEAR_OUT_COMMAND = ['/bin/sh', '-c', clearScript(OUT_INSIDE)] as const
const CLEAR_ALL_COMMAND = ['/bin/sh', '-c', clearScript(`/work ${OUT_INSIDE}`)] as const

export const rememberCheckout = (
  { repo, branch, base }: AgentJob,
  folders: NumberedFolders,
  from: CheckedOut,
) => begunCheckout.save(folders, { remote: repo.remote, branch, base, from })

/**
 * Refused as `gone` with the reason for which the run begins anew, and otherwise when nobody knows whether the agent was
 * done. The home is a new one, with the transcripts of the agent.
 */
export async function openBegunWork(
  dependencies: ExecutorDependencies,
  sandboxes: Sandboxes,
  { job, workerId }: Pick<AgentExecutionRequest, 'job' | 'workerId'>,
): Promise<Result<BegunWork>> {
  const { id, sandbox } = job.run
  const noted = await begunCheckout.read(sandboxes.foldersOf(id))
  const note = await unpublishedWork.read(sandboxes.foldersOf(id))
  const known = noted.ok ? noted.value : undefined
  const left = note.ok ? note.value : undefined
  if (noted.ok && known === undefined && note.ok && left === undefined)
    return no('gone', 'its sandbox is gone')
  // The work may be of an earlier execution than the last one, which was elsewhere.
  const isLast = job.continueSession !== undefined || sandbox.workerId === workerId
  if (!note.ok && isLast) return tryAgain(note.refusal)
  const isDone = isLast && left !== undefined && isWanted(left, job)
  // Finished work says itself where it began.
  const begun =
    known ?? (isDone && left.from !== undefined ? { ...left, from: left.from, base: job.base } : undefined)
  if (begun === undefined) return no('gone', noted.ok ? 'its sandbox is gone' : noted.refusal.message)
  const { from, ...place } = begun
  if (place.remote !== job.repo.remote || place.branch !== job.branch || place.base !== job.base)
    return no('gone', `its checkout is ${place.branch} of ${place.remote}`)
  const found = isDone ? undefined : await findResumableSession(dependencies, sandboxes, job)
  if (!isDone && (found === undefined || found !== job.continueSession))
    return no('gone', 'the session of its agent is gone')
  const folders = await sandboxes.openRetained(id, dependencies.drivers[job.agent.provider].transcripts)
  if (folders === undefined) return no('gone', 'its sandbox is gone')
  return yes({ folders, from, sessionId: found, left })
}

/**
 * Whether finished work is published as it is. A host that knows of the work would have asked for that, so a person
 * wants it changed first; and so does a person who has said something else since the agent began.
 */
export const isWanted = (left: UnpublishedWork, { run }: AgentJob): boolean =>
  left.from !== undefined && run.sandbox.unpublished !== true && answers(left, run)

/** Returns why the checkout cannot be used. It is then deleted. */
export async function findCheckoutFault(
  session: SandboxSession,
  { from, folders }: BegunWork,
  signal: AbortSignal,
): Promise<string | undefined> {
  const fault = failureOf(await session.run(scriptCommand(CHECK_SCRIPT, from.base)))
  if (fault === undefined || signal.aborted) return undefined
  await session.run(CLEAR_ALL_COMMAND)
  await unpublishedWork.forget(folders)
  return `its checkout is damaged: ${fault}`
}

/**
 * Finds the session of an earlier execution in which the agent of a job can go on.
 *
 * Returns the id of a session in the run's sandbox that belongs to the job's agent and has a transcript.
 */
export async function findResumableSession(
  { drivers, log }: Pick<ExecutorDependencies, 'drivers' | 'log'>,
  sandboxes: Sandboxes,
  { run, agent: { provider } }: AgentJob,
): Promise<string | undefined> {
  const record = sandboxes.get(run.id)
  const sessionId = record?.sessionId ?? record?.agent?.session
  if (sessionId === undefined || !AGENTS[provider].isResumable || record?.agent?.provider !== provider)
    return undefined
  try {
    const { home } = sandboxes.foldersOf(run.id)
    const usage = await drivers[provider].readUsage(
      openAgentFiles(home, () => true),
      sessionId,
    )
    return usage.length === 0 ? undefined : sessionId
  } catch (error) {
    log.warn({ err: error }, 'the session of an earlier execution cannot be read; a new one begins')
    return undefined
  }
}
