/**
 * `finishExecution` ends an execution whose agent is done: its costs, its outputs, publishing, and the outcome.
 *
 * Each step is isolated from the others, so that a full disk in one does not lose the results of the rest.
 */
import type { AgentOutcome, StopRequest } from '../../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
import type { RunOutcome } from '../../../protocol/frames.ts'
import { bundleName } from '../../../protocol/kept-bundle.ts'
import { openAgentFiles } from '../../agents/agent-files.ts'
import { bestCost, checkedCost } from '../../agents/cost.ts'
import { explainFoundSecret } from '../../secrets/run-secrets.ts'
import { reportUsage } from '../agent/agent-start.ts'
import { AFTER_AGENT, type SandboxSession } from '../sandbox-session.ts'
import { type CollectedOutputs, collectOutputs, reportTextArtifact, sendBundle } from './collect-outputs.ts'
import { type ExecutionState, isBlank } from './execution-state.ts'
import { describePublished, type OutcomeStatus, reasonText, statusOfPublishing } from './publish-outcome.ts'
import { unpublishedWork } from './unpublished-work.ts'
import type { PublishEnd, PublishedWork } from './work-plan.ts'

/** The host waits 15 s for a cancelled run to end, and the agent may use most of them. */
const STOPPED_OUTPUTS_MS_MAX = 2_000
const SUMMARY = 'the agent’s last message'
const NO_OUTPUTS: CollectedOutputs = { artifacts: [], facts: [], leftOut: [] }

export async function finishExecution(
  state: ExecutionState,
  agentOutcome: AgentOutcome,
): Promise<RunOutcome> {
  state.reporter.phase = 'publish'
  const costs = await state.time.measure(() => reportSpending(state))
  const collected = state.time.measure(() => reportOutputs(state))
  const outputs = await state.orFallback(collected, () => NO_OUTPUTS)
  state.agentArtifacts = outputs.artifacts
  const judged = judgeSecrets(state, agentOutcome, outputs)
  if (judged !== agentOutcome && state.isWorkRemembered && state.session !== undefined)
    await unpublishedWork.forget(state.session.folders)
  const end = await state.orFallback(publishWork(state, judged), unexpectedEnd)
  return await buildOutcome(state, judged, costs, outputs, end)
}

/** Runs after every execution, however the agent ended. */
async function reportSpending(state: ExecutionState): Promise<readonly CostEntry[]> {
  const { dependencies, request, reporter } = state.options
  const preparedAgent = state.preparedAgent
  if (preparedAgent === undefined || state.session === undefined) return []
  await state.session.waitUntilEmpty()
  const sessionId = state.sessionId ?? preparedAgent.task.sessionId
  const files = openAgentFiles(
    state.session.folders.home,
    startUsageTimeLimit(state),
    dependencies.clock.now(),
  )
  const usageCost = await state.orFallback(
    reportUsage(preparedAgent, files, sessionId, reporter, state.resumedSince),
    () => undefined,
  )
  const stated = state.exitReport === undefined ? usageCost : bestCost(state.exitReport, usageCost)
  const cost = checkedCost(preparedAgent.driver.provider, stated, state.meter?.rows() ?? [])
  if (cost === undefined) return []
  reporter.report({ is: 'event', event: { type: 'cost', at: state.instant(), entry: cost } })
  reporter.report({ is: 'patch', patch: { costs: [cost] } })
  dependencies.log.debug({ runId: request.job.run.id }, 'the agent has ended')
  return [cost]
}

async function reportOutputs(state: ExecutionState): Promise<CollectedOutputs> {
  const session = state.session
  if (session === undefined || state.isSandboxUntouched || state.isKilled()) return NO_OUTPUTS
  await session.waitUntilEmpty()
  const { reporter, request } = state.options
  const outputs = await collectOutputs(session.folders.out, {
    reporter,
    instant: () => state.instant(),
    mayContinue: startTimeLimit(state),
    artifactBytes: request.job.limits.artifactBytes,
    search: state.search,
  })
  if (outputs.leftOut.length > 0) session.log(outputs.leftOut.join('\n'))
  return outputs
}

/** A secret in an output, or in the agent's last message, fails the run before anything is published. */
function judgeSecrets(
  state: ExecutionState,
  agentOutcome: AgentOutcome,
  { foundSecret }: CollectedOutputs,
): AgentOutcome {
  const inSummary = state.search.findIn(state.exitReport?.summary ?? '')
  const reason =
    foundSecret ??
    (inSummary === undefined ? undefined : explainFoundSecret(state.search, inSummary, SUMMARY, SUMMARY))
  if (reason === undefined) return agentOutcome
  state.session?.log(reason)
  return agentOutcome.verdict === 'stopped' ? agentOutcome : { verdict: 'failed', reason }
}

/** Publishes the agent's work if the agent is done and this worker still holds the lease. */
async function publishWork(state: ExecutionState, agentOutcome: AgentOutcome): Promise<PublishEnd> {
  const { request } = state.options
  const session = state.session
  if (agentOutcome.verdict !== 'done' || session === undefined || !state.isCheckedOut)
    return {
      published: yes(undefined),
      isUnpublished: agentOutcome.verdict === 'stopped' && state.isWorkRemembered,
    }
  if (state.time.isOver) {
    if (!state.isWorkRemembered) await state.rememberWork(session, { areOutputsDue: true })
    return { published: state.time.refusal(), isUnpublished: state.isWorkRemembered }
  }
  const isHookDue = state.preparedAgent !== undefined || state.plan.isHookDue()
  const failed = isHookDue ? await runLastHook(state, session, request.job.repo.hooks?.afterAgent) : undefined
  if (failed !== undefined) return failed
  const end = await state.plan.publish({
    session,
    time: state.time,
    agentSummary: state.agentSummary(),
    addArtifact: (name, text) => addArtifact(state, name, text),
    addBundle: (path) => addBundle(state, session, path),
    mayContinue: () => state.stopRequest === undefined,
    signal: state.abort.signal,
    afterPush: { mayContinue: () => !state.finalAbort.signal.aborted, signal: state.finalAbort.signal },
  })
  const { published } = end
  if (published.ok && published.value !== undefined) {
    const { summary: _, ...progress } = published.value
    state.options.onProgress(progress)
  }
  return end
}

/** The agent is done, so a stop of the worker meanwhile keeps its work. */
async function runLastHook(
  state: ExecutionState,
  session: SandboxSession,
  hook: string | undefined,
): Promise<PublishEnd | undefined> {
  if (isBlank(hook)) return undefined
  const { folders } = session
  await state.rememberWork(session, {})
  const failed = await state.time.measure((signal) =>
    state.runScript(session, 'hook', AFTER_AGENT, hook, signal),
  )
  if (failed === undefined) return undefined
  if (state.time.isOver) return { published: state.time.refusal(), isUnpublished: state.isWorkRemembered }
  if (state.stopRequest === undefined) await unpublishedWork.forget(folders)
  const note = await unpublishedWork.read(folders)
  return { published: failed, isUnpublished: !note.ok || note.value !== undefined }
}

/** The agent may have written an artifact of the same name. */
function addArtifact(state: ExecutionState, name: string, text: string): void {
  const free = state.agentArtifacts.includes(name) ? `switchyard-${name}` : name
  reportTextArtifact(state.reporter, state.instant(), free, text)
  state.ownArtifacts.push(free)
}

async function addBundle(state: ExecutionState, session: SandboxSession, path: string): Promise<boolean> {
  const { reporter, request } = state.options
  const name = bundleName(request.job.followUp)
  const leftOut = await sendBundle(name, path, {
    reporter,
    instant: () => state.instant(),
    artifactBytes: request.job.limits.artifactBytes,
  })
  if (leftOut === undefined) state.ownArtifacts.push(name)
  else session.log(leftOut)
  return leftOut === undefined
}

async function buildOutcome(
  state: ExecutionState,
  agentOutcome: AgentOutcome,
  costs: readonly CostEntry[],
  { artifacts }: CollectedOutputs,
  end: PublishEnd,
): Promise<RunOutcome> {
  const { published } = end
  const sandbox = await state.orFallback(retainSandbox(state, agentOutcome, end), () => undefined)
  const work = published.ok ? published.value : undefined
  return {
    ...statusOf(agentOutcome, end, state.stopRequest),
    costs: [...costs],
    ...describePublished(work, buildSummary(state, published), [...artifacts, ...state.ownArtifacts]),
    ...(state.sessionId === undefined ? {} : { agentSessionId: state.sessionId }),
    ...(sandbox === undefined ? {} : { sandbox }),
  }
}

function buildSummary(state: ExecutionState, published: Result<PublishedWork | undefined>): string {
  const summary = (published.ok ? published.value?.summary : undefined) ?? state.agentSummary()
  const isUnchanged = published.ok && published.value === undefined && state.exitReport?.verdict === 'done'
  return isUnchanged
    ? `${summary}\n\nNothing in the repository was changed, so there is no pull request.`.trim()
    : summary
}

async function retainSandbox(
  state: ExecutionState,
  agentOutcome: AgentOutcome,
  { published, isUnpublished }: PublishEnd,
) {
  const { sandboxes, request } = state.options
  if (state.isSandboxUntouched) return untouchedSandbox(state)
  if (state.session === undefined || !mayGoOnLater(state)) return undefined
  // Without an agent there is no session to resume, and the log tells the rest: let the sandbox expire at once.
  if (state.preparedAgent === undefined && !state.plan.hasRetainedSandbox())
    return { ...state.sandboxReference(), retainedUntil: state.instant() }
  state.isRetained = true
  const isPublished = agentOutcome.verdict === 'done' && published.ok
  const retainedUntil = await sandboxes.retain(request.job.run.id, {
    hours: request.job.retentionHours,
    unpushed: !isPublished || state.plan.hasUnpublishedWork(),
    sessionId: state.sessionId,
  })
  if (retainedUntil === undefined) return undefined
  return { ...state.sandboxReference(), retainedUntil, ...(isUnpublished ? { unpublished: true } : {}) }
}

/** The sandbox is kept for no longer than before. */
async function untouchedSandbox(state: ExecutionState) {
  const { sandboxes, request } = state.options
  const { id } = request.job.run
  const retention = { hours: request.job.retentionHours, unpushed: true }
  const retainedUntil = sandboxes.get(id)?.retainedUntil ?? (await sandboxes.retain(id, retention))
  if (retainedUntil === undefined) return undefined
  return { ...state.sandboxReference(), retainedUntil, unpublished: true }
}

/**
 * After a lost lease another attempt at the run publishes the finished work, or goes on in the agent's session; the host
 * says when it does neither.
 */
function mayGoOnLater(state: ExecutionState): boolean {
  if (state.stopRequest?.leaseLost !== true || state.isWorkRemembered) return true
  return state.options.request.job.kind === 'run' && state.sessionId !== undefined
}

/** The returned function tells whether work may go on: without limit, or briefly once the run has to stop. */
function startTimeLimit(state: ExecutionState): () => boolean {
  const mayReadUsage = startUsageTimeLimit(state)
  return () => !state.isKilled() && mayReadUsage()
}

/** Usage is read after a kill, too. */
function startUsageTimeLimit(state: ExecutionState): () => boolean {
  const { clock } = state.options.dependencies
  const startedAt = clock.monotonic()
  return () => {
    if (state.time.isOver) return false
    return state.stopRequest === undefined || clock.monotonic() - startedAt <= STOPPED_OUTPUTS_MS_MAX
  }
}

function statusOf(
  { verdict, reason, failure }: AgentOutcome,
  end: PublishEnd,
  stop: StopRequest | undefined,
): OutcomeStatus {
  if (verdict === 'done') return statusOfPublishing(end, stop)
  if (verdict === 'stopped') return { status: 'cancelled', error: reasonText(reason) }
  return { status: 'failed', error: reasonText(reason), ...(failure === undefined ? {} : { failure }) }
}

/** The worker failed at a step, and the sandbox may hold finished work. */
const unexpectedEnd = (reason: string): PublishEnd => ({
  published: no('failed', reason),
  isUnpublished: false,
})
