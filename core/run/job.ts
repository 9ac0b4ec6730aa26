/**
 * Builds the job for a worker: the run, the repository, the agent and its sandbox, and the secrets for this run.
 *
 * The worker receives only what it needs. A job fits into a frame with space to spare: memories (newest first),
 * labels and the discussion of a pull request have their own budgets, and the description is truncated when the rest
 * leaves too little space.
 */
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { RepoMapping, ServiceConfig } from '../../protocol/config.ts'
import { CODE_HOST_FACTS, isFolder, TRACKER_FACTS } from '../../protocol/drivers.ts'
import type {
  AgentJob,
  Job,
  JobAgent,
  JobCodehost,
  JobFollowUp,
  JobLimits,
  JobRepo,
  JobSandbox,
  RunCredentials,
} from '../../protocol/frames.ts'
import {
  JOB_BYTES_MAX,
  JOB_DISCUSSION_BYTES_MAX,
  JOB_LABELS_BYTES_MAX,
  JOB_MEMORIES_BYTES_MAX,
  UNREACHABLE_SECONDS,
} from '../../protocol/limits.ts'
import type { RepoMemory, Run } from '../../protocol/run.ts'
import { extend } from '../extend.ts'
import { agentCredential } from '../settings/agent-credentials.ts'
import { branchFor } from './branch.ts'
import type { PullDiscussion } from './follow-up.ts'
import { issueToClose } from './issue-to-close.ts'
import { followUpInstructionsFor, instructionsFor } from './job-instructions.ts'
import { bytesOf, fitToFrame, takeWithin, withDescription } from './job-size.ts'
import { artifactBudget, executionLogBytes, logBudget } from './log-budget.ts'
import { modelUseOf } from './model-use.ts'
import type { PublishWord } from './publishing.ts'
import { providerFor } from './run-options.ts'
import { trimDiscussion } from './trim-discussion.ts'

export interface JobFacts {
  readonly kind: 'run'
  readonly run: Run
  readonly config: ServiceConfig
  readonly repo: { readonly key: string; readonly mapping: RepoMapping }
  readonly memories: readonly RepoMemory[]
  /** The bytes of events that earlier executions of the run have left. */
  readonly storedLogBytes: number
}

export function buildJob(facts: JobFacts): AgentJob {
  const { run, config, repo } = facts
  const base = repo.mapping.defaultBranch ?? 'main'
  const branch = branchFor(run.ticket, base)
  return fitToFrame(
    extend(commonFields(facts, instructionsFor(run, repo.mapping, branch, base)), {
      kind: 'run' as const,
      branch,
      base,
      credentials: credentialsFor(providerFor(run, repo.mapping, config), config),
    }),
  )
}

/**
 * Returns the job that only publishes what an execution of this job has finished: without an agent, and without the
 * credentials of agent and tracker. `word`: a person's, that it is published although it holds what looks like keys.
 */
export function publishJob({ agent: _, credentials, ...job }: AgentJob, word: PublishWord = {}): Job {
  const { codehost } = credentials
  return {
    ...job,
    kind: 'publish',
    credentials: codehost === undefined ? {} : { codehost },
    ...(word.anyway === undefined ? {} : { publishAnyway: word.anyway }),
    ...(word.anyway === undefined || word.shownKeys === undefined ? {} : { shownKeys: word.shownKeys }),
  }
}

export interface FollowUpJobFacts extends Omit<JobFacts, 'kind'> {
  readonly followUp: JobFollowUp
  readonly discussion: PullDiscussion
}

/**
 * Builds a follow-up's job on the branches of the pull request. A follow-up does not need the tracker, so it gets no
 * tracker credential.
 */
export function buildFollowUpJob(facts: FollowUpJobFacts): AgentJob {
  const { run, config, followUp, repo, discussion } = facts
  const { tracker: _, ...credentials } = credentialsFor(providerFor(run, repo.mapping, config), config)
  const jobOf = ({ pull, omitted }: PullDiscussion): AgentJob => ({
    ...commonFields(facts, followUpInstructionsFor(run, repo.mapping, pull, omitted)),
    kind: 'follow-up',
    branch: pull.headBranch,
    base: pull.baseBranch,
    credentials,
    pull,
    followUp,
  })
  const withoutDiscussion = withDescription(jobOf(trimDiscussion(discussion, 0)), '')
  const discussionBytesMax = Math.min(JOB_DISCUSSION_BYTES_MAX, JOB_BYTES_MAX - bytesOf(withoutDiscussion))
  return fitToFrame(jobOf(trimDiscussion(discussion, Math.max(0, discussionBytesMax))))
}

type CommonJobFields = Omit<AgentJob, 'kind' | 'branch' | 'base' | 'credentials' | 'pull' | 'followUp'>

function commonFields(
  { run, config, repo, memories, storedLogBytes }: Omit<JobFacts, 'kind'>,
  instructions: string,
): CommonJobFields {
  const { key, mapping } = repo
  return {
    run: trimRun(run),
    repo: repoOf(key, mapping, mapping.defaultBranch ?? 'main'),
    agent: extend(agentOf(run, providerFor(run, mapping, config), config.agent), {
      instructions,
      memories: textsOf(memories),
    }),
    codehost: codehostOf(config.codehost, mapping, issueToClose(run.ticket, mapping.remote, config)),
    sandbox: sandboxOf(config.sandbox),
    limits: limitsOf(config, storedLogBytes),
    retentionHours: config.sandbox.retentionHours,
  }
}

// ---- the run ---------------------------------------------------------------------------------------------------

/** Keeps the ticket and the state of the run, and drops its history, which is for people. */
function trimRun(run: Run): Run {
  const { edited: _, ...ticket } = run.ticket
  const { id, status, sandbox, createdAt, agentSessionId, prUrl, prState, instructions } = run
  return {
    id,
    ticket: { ...ticket, labels: takeWithin(ticket.labels, JOB_LABELS_BYTES_MAX), blockedBy: [] },
    status,
    sandbox,
    createdAt,
    costs: [],
    ...(agentSessionId === undefined ? {} : { agentSessionId }),
    ...(prUrl === undefined ? {} : { prUrl }),
    ...(prState === undefined ? {} : { prState }),
    ...(instructions === undefined ? {} : { instructions }),
  }
}

// ---- the agent -------------------------------------------------------------------------------------------------

/** The configured model is valid only for the configured provider. */
function agentOf(
  { agent: choice }: Run,
  provider: AgentProvider,
  agent: ServiceConfig['agent'],
): Omit<JobAgent, 'instructions' | 'memories'> {
  const model = choice?.model ?? (provider === agent.provider ? agent.orchestratorModel : '')
  const command = agent.commands[provider]
  return {
    provider,
    effort: choice?.effort ?? agent.orchestratorEffort,
    ...(model === '' ? {} : { model }),
    ...(command === undefined ? {} : { command }),
  }
}

function textsOf(memories: readonly RepoMemory[]): string[] {
  const newestFirst = memories.toSorted((a, b) =>
    a.updatedAt === b.updatedAt ? 0 : a.updatedAt < b.updatedAt ? 1 : -1,
  )
  return takeWithin(
    newestFirst.map(({ text }) => text),
    JOB_MEMORIES_BYTES_MAX,
  )
}

// ---- secrets ---------------------------------------------------------------------------------------------------

/** A tracker or code host in a folder of this machine needs no credential. */
function credentialsFor(provider: AgentProvider, config: ServiceConfig): RunCredentials {
  const agent = agentCredential(provider, config.agent)
  const codehost = isFolder(CODE_HOST_FACTS[config.codehost.driver]) ? '' : (config.codehost.token ?? '')
  const tracker = isFolder(TRACKER_FACTS[config.tracker.driver]) ? '' : (config.tracker.apiKey ?? '')
  return {
    ...(codehost === '' ? {} : { codehost }),
    ...(agent === undefined ? {} : { agent }),
    ...(config.agent.keyInSandbox ? { keyInSandbox: true } : {}),
    ...modelUseOf(config.agent),
    ...(tracker === '' ? {} : { tracker }),
  }
}

// ---- the rest of the configuration -------------------------------------------------------------------------------

function repoOf(
  key: string,
  { remote, cloneUrl, setup, allowWorkflows }: RepoMapping,
  defaultBranch: string,
): JobRepo {
  return {
    key,
    remote,
    defaultBranch,
    ...(cloneUrl === undefined ? {} : { cloneUrl }),
    ...(setup === undefined ? {} : { setup }),
    ...(allowWorkflows === undefined ? {} : { allowWorkflows }),
  }
}

function codehostOf(
  { driver, apiUrl, path }: ServiceConfig['codehost'],
  { draftPulls }: RepoMapping,
  closesIssue: number | undefined,
): JobCodehost {
  return {
    driver,
    ...(apiUrl === undefined ? {} : { apiUrl }),
    ...(path === undefined ? {} : { path }),
    ...(draftPulls === undefined ? {} : { draftPulls }),
    ...(closesIssue === undefined ? {} : { closesIssue }),
  }
}

function sandboxOf(sandbox: ServiceConfig['sandbox']): JobSandbox {
  const { network, allowedHosts, maxProcesses, memoryMib, diskQuotaGib, exposeCodehostToken } = sandbox
  return {
    network,
    allowedHosts,
    maxProcesses,
    exposeCodehostToken,
    ...(memoryMib === undefined ? {} : { memoryMib }),
    ...(diskQuotaGib === undefined ? {} : { diskQuotaGib }),
  }
}

function limitsOf(config: ServiceConfig, storedLogBytes: number): JobLimits {
  const { maxCostUsd, maxTurns } = config.agent
  return {
    maxMinutes: config.sandbox.maxRunMinutes,
    logBytes: executionLogBytes(logBudget(config), storedLogBytes),
    artifactBytes: artifactBudget(config),
    unreachableSeconds: UNREACHABLE_SECONDS,
    ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
    ...(maxTurns === undefined ? {} : { maxTurns }),
  }
}

// ---- size ------------------------------------------------------------------------------------------------------
