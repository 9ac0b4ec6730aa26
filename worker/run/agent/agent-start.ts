/**
 * `prepareAgent` builds an agent's command for a sandbox; `reportUsage` reads afterwards what the agent has spent.
 *
 * A shell script in front of the agent installs its settings from inside the sandbox. The worker never writes into the
 * home folder from outside: an earlier session may have left links there, and the worker may run as root.
 */
import type { ExecutionReporter } from '../../../core/daemon/ports.ts'
import { type Refused, type Result, yes } from '../../../core/result.ts'
import { missingAgentCure } from '../../../core/run/job-needs.ts'
import { PRICES } from '../../../core/run/price-table.ts'
import {
  agentSubject,
  missingCredentialSubject,
  refusedCredentialSubject,
  withCure,
} from '../../../core/run/queue-reasons.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
import type { AgentJob, FailureKind, Job, UsageSnapshot } from '../../../protocol/frames.ts'
import type { AgentCommand, AgentDriver, AgentFiles, AgentListener, AgentTask } from '../../agents/agent.ts'
import { costFromUsage } from '../../agents/cost.ts'
import type { SandboxFile } from '../../sandbox/driver.ts'
import { CODEHOST_CREDENTIAL_INSIDE } from '../../sandbox/inside-paths.ts'
import type { ExecutorDependencies } from '../execution/executor-dependencies.ts'
import type { AgentRequest } from '../execution/work-plan.ts'
import type { SandboxCommand } from '../sandbox-session.ts'
import { type AgentAccess, pricesOf } from './agent-access.ts'

export interface PreparedAgent {
  readonly driver: AgentDriver
  readonly task: AgentTask
  readonly command: SandboxCommand
  readonly listener: AgentListener
}

export async function prepareAgent(
  dependencies: ExecutorDependencies,
  job: AgentJob,
  agentRequest: AgentRequest,
  access: AgentAccess,
): Promise<Result<PreparedAgent>> {
  const driver = dependencies.drivers[job.agent.provider]
  const found = await driver.locate()
  // A configured command line may name a program that the driver cannot locate.
  if (found.is === 'missing' && job.agent.command === undefined)
    return refuse('configuration', withCure(agentSubject(driver.provider), found.reason))
  const task = buildTask(job, agentRequest, access, dependencies.uuid())
  const made = driver.buildCommand(task, found)
  const { environment, ...rest } = withSeedFiles(made, codehostTokenFiles(job))
  const command = {
    ...rest,
    environment: { ...environment, ...agentRequest.environment },
    ...(access.modelSocket === undefined ? {} : { modelSocket: access.modelSocket }),
  }
  return yes({ driver, task, command, listener: driver.createListener(task) })
}

const refuse = (failure: FailureKind, message: string): Refused => ({
  ok: false,
  refusal: { kind: 'failed', message, failure },
})

/** Words the failure of an agent whose credential its vendor refused. `reason`: what the agent says. */
export function explainRefusedCredential({ agent, credentials }: AgentJob, reason: string): string {
  const { provider } = agent
  const cure = missingAgentCure(provider)
  return credentials.agent === undefined
    ? withCure(missingCredentialSubject(provider), `${cure} (the agent says: ${reason})`)
    : withCure(refusedCredentialSubject(provider), `${cure} to a valid one (the agent says: ${reason})`)
}

function buildTask(
  job: AgentJob,
  { prompt, resume }: AgentRequest,
  { credential, modelApiUrl, secrets }: AgentAccess,
  uuid: string,
): AgentTask {
  const { agent, limits } = job
  return {
    agent,
    prompt,
    sessionId: resume ?? uuid,
    ...(resume === undefined ? {} : { resume }),
    environment: {},
    ...(credential === undefined ? {} : { credential }),
    ...(modelApiUrl === undefined ? {} : { modelApiUrl }),
    secrets: [...secrets, ...codehostTokenFiles(job).map(({ text }) => text)],
    prices: pricesOf(job.credentials),
    ...(limits.maxTurns === undefined ? {} : { maxTurns: limits.maxTurns }),
    ...(limits.maxCostUsd === undefined ? {} : { maxCostUsd: limits.maxCostUsd }),
  }
}

// ---- the command -------------------------------------------------------------------------------------------------

const SEEDS_FOLDER = '/run/seeds'

/** `rm` comes first: `cp` would write through a link in place of a settings file. */
const INSTALL_SEEDS_SCRIPT = [
  'while [ "$1" != -- ]; do',
  '  mkdir -p "$(dirname "$2")" && rm -rf "$2" && cp "$1" "$2" && chmod 600 "$2" || exit 70',
  '  shift 2',
  'done',
  'shift',
  `if [ -r ${CODEHOST_CREDENTIAL_INSIDE} ]; then GH_TOKEN=$(cat ${CODEHOST_CREDENTIAL_INSIDE}); export GH_TOKEN; fi`,
  'exec "$@"',
].join('\n')

/** `extraFiles` are added to the agent's own files. */
export function withSeedFiles(
  { command, environment, files, seeds, stdin, readOnlyPaths }: AgentCommand,
  extraFiles: readonly SandboxFile[] = [],
): SandboxCommand {
  const seedFiles = seeds.map(
    ({ text }, n): SandboxFile => ({ path: `${SEEDS_FOLDER}/${n}`, mode: '0444', text }),
  )
  const pairs = seeds.flatMap(({ path }, n) => [`${SEEDS_FOLDER}/${n}`, path])
  return {
    command: ['/bin/sh', '-c', INSTALL_SEEDS_SCRIPT, 'agent', ...pairs, '--', ...command],
    environment,
    readOnlyPaths,
    files: [...files, ...seedFiles, ...extraFiles],
    ...(stdin === undefined ? {} : { stdin }),
  }
}

/** The token is exposed only if the configuration asks for it: it carries all rights of its owner. */
function codehostTokenFiles({ credentials, sandbox }: Job): SandboxFile[] {
  if (sandbox?.exposeCodehostToken !== true || credentials.codehost === undefined) return []
  return [{ path: CODEHOST_CREDENTIAL_INSIDE, mode: '0400', text: credentials.codehost }]
}

// ---- usage -------------------------------------------------------------------------------------------------------

/**
 * Reports only numbers and names; the transcripts themselves stay in the sandbox. `since`: usage of a resumed session
 * before this instant belongs to earlier executions and is not part of the cost.
 */
export async function reportUsage(
  { driver }: Pick<PreparedAgent, 'driver'>,
  files: AgentFiles,
  sessionId: string,
  reporter: ExecutionReporter,
  since?: string,
): Promise<CostEntry | undefined> {
  const { usage, cost } = await readUsageAndCost(driver, files, sessionId, since)
  for (const snapshot of usage) reporter.report({ is: 'usage', snapshot })
  return cost
}

export async function readUsageAndCost(
  driver: AgentDriver,
  files: AgentFiles,
  sessionId: string,
  since?: string,
): Promise<{ readonly usage: readonly UsageSnapshot[]; readonly cost: CostEntry | undefined }> {
  const usage = await driver.readUsage(files, sessionId)
  return { usage, cost: costFromUsage(driver.provider, usage, PRICES, since) }
}
