/**
 * An agent made ready to start in a run's sandbox, and its bill afterwards.
 *
 * Its settings are laid down inside, by a few lines of shell in front of it: a home that a setup command or an earlier
 * session has filled may hold links to anywhere, and outside they would be followed by somebody who may write anywhere.
 */
import type { ExecutionReporter } from '../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { PRICES } from '../../core/run/price-table.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { Job, UsageSnapshot } from '../../protocol/frames.ts'
import type { AgentCommand, AgentDriver, AgentFiles, AgentListener, AgentTask } from '../agents/agent.ts'
import { costFromUsage } from '../agents/cost.ts'
import type { SandboxFile } from '../sandbox/arguments.ts'
import type { HandsParts } from './dependencies.ts'
import { CODEHOST_CREDENTIAL } from './sandbox-paths.ts'
import type { Command } from './sandbox-session.ts'
import type { Errand } from './work-plan.ts'

export interface AgentStart {
  readonly driver: AgentDriver
  readonly task: AgentTask
  readonly command: Command
  readonly listener: AgentListener
}

export async function agentStart(hands: HandsParts, job: Job, errand: Errand): Promise<Result<AgentStart>> {
  const driver = hands.drivers[job.agent.provider]
  const found = await driver.locate()
  // A command line of the person's own may name a program that is nobody else's.
  if (found.is === 'missing' && job.agent.command === undefined) return no('failed', found.reason)
  const task = taskFor(job, errand, hands.uuid())
  const made = driver.buildCommand(task, found)
  const command = withSeeds(made, codehostToken(job))
  const environment = { ...command.environment, ...errand.environment }
  return yes({ driver, task, command: { ...command, environment }, listener: driver.createListener(task) })
}

function taskFor(job: Job, { prompt, resume }: Errand, uuid: string): AgentTask {
  const { agent, credentials, limits } = job
  return {
    agent,
    prompt,
    sessionId: resume ?? uuid,
    ...(resume === undefined ? {} : { resume }),
    environment: {},
    ...(credentials.agent === undefined ? {} : { credential: credentials.agent }),
    secrets: codehostToken(job).map(({ text }) => text),
    ...(limits.maxTurns === undefined ? {} : { maxTurns: limits.maxTurns }),
    ...(limits.maxCostUsd === undefined ? {} : { maxCostUsd: limits.maxCostUsd }),
  }
}

// ---- the command -------------------------------------------------------------------------------------------------

const SEEDS = '/run/seeds'

/** `rm` first: a link in the place of a settings file would be written through. */
const LAY_DOWN = [
  'while [ "$1" != -- ]; do',
  '  mkdir -p "$(dirname "$2")" && rm -rf "$2" && cp "$1" "$2" && chmod 600 "$2" || exit 70',
  '  shift 2',
  'done',
  'shift',
  `if [ -r ${CODEHOST_CREDENTIAL} ]; then GH_TOKEN=$(cat ${CODEHOST_CREDENTIAL}); export GH_TOKEN; fi`,
  'exec "$@"',
].join('\n')

/** `more`: files that it has besides its own. */
export function withSeeds(
  { command, environment, files, seeds, stdin, readOnlyPaths: shown }: AgentCommand,
  more: readonly SandboxFile[] = [],
): Command {
  const laid = seeds.map(({ text }, n): SandboxFile => ({ path: `${SEEDS}/${n}`, mode: '0444', text }))
  const pairs = seeds.flatMap(({ path }, n) => [`${SEEDS}/${n}`, path])
  return {
    command: ['/bin/sh', '-c', LAY_DOWN, 'agent', ...pairs, '--', ...command],
    environment,
    shown,
    files: [...files, ...laid, ...more],
    ...(stdin === undefined ? {} : { stdin }),
  }
}

/** Only by configuration: whoever holds it can do what its owner can, everywhere. */
function codehostToken({ credentials, sandbox }: Job): SandboxFile[] {
  if (sandbox?.exposeCodehostToken !== true || credentials.codehost === undefined) return []
  return [{ path: CODEHOST_CREDENTIAL, mode: '0400', text: credentials.codehost }]
}

// ---- the bill ----------------------------------------------------------------------------------------------------

/**
 * Numbers and names go out; the transcripts themselves stay where they are. `since`: an instant before which a session
 * that goes on belonged to earlier executions.
 */
export async function exportUsage(
  { driver }: Pick<AgentStart, 'driver'>,
  files: AgentFiles,
  sessionId: string,
  reporter: ExecutionReporter,
  since?: string,
): Promise<CostEntry | undefined> {
  const { usage, cost } = await billOf(driver, files, sessionId, since)
  for (const snapshot of usage) reporter.report({ is: 'usage', snapshot })
  return cost
}

export async function billOf(
  driver: AgentDriver,
  files: AgentFiles,
  sessionId: string,
  since?: string,
): Promise<{ readonly usage: readonly UsageSnapshot[]; readonly cost: CostEntry | undefined }> {
  const usage = await driver.readUsage(files, sessionId)
  return { usage, cost: costFromUsage(driver.provider, usage, PRICES, since) }
}
