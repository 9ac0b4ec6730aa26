/**
 * Tells what a run's job needs besides a free slot: an agent on the worker, credentials in the configuration.
 *
 * Runs with equal needs wait for the same, so the needs have a key.
 */
import { AGENTS, type AgentProvider } from '../../protocol/agents/registry.ts'
import type { RepoMapping, ServiceConfig } from '../../protocol/config.ts'
import { CODE_HOST_FACTS, isFolder } from '../../protocol/drivers.ts'
import type { Run } from '../../protocol/run.ts'
import { agentCredential } from '../settings/agent-credentials.ts'
import {
  agentSubject,
  missingCredentialSubject,
  refusedCredentialSubject,
  remoteSubject,
  withCure,
} from './queue-reasons.ts'
import { providerFor } from './run-options.ts'

export interface JobNeeds {
  readonly key: string
  /** The agent that the worker must have. Absent: the configuration has another command for it. */
  readonly agent?: AgentProvider
  /** A control group must limit the job's memory. */
  readonly limitsMemory?: true
  /** The queue reason for a credential that the configuration lacks, or that cannot be used as it is configured. */
  readonly missingCredential?: string
  /** Things that a worker may report as unusable for the job: the beginnings of queue reasons. */
  readonly subjects: readonly string[]
}

/** By configuration, which is never changed in place; then by agent and repository. Queued runs share their needs. */
const knownNeeds = new WeakMap<ServiceConfig, Map<string, JobNeeds>>()

export function jobNeeds(run: Pick<Run, 'agent'>, mapping: RepoMapping, config: ServiceConfig): JobNeeds {
  const provider = providerFor(run, mapping, config)
  const known = knownNeeds.get(config) ?? new Map<string, JobNeeds>()
  const key = `${provider} ${mapping.remote}`
  const needs = known.get(key) ?? needsOf(provider, mapping.remote, config)
  if (!known.has(key)) knownNeeds.set(config, known.set(key, needs))
  return needs
}

/** A job that only publishes asks no agent. Its own backoff counts, so no setback keeps it from its worker. */
export function publishingNeeds({ remote }: RepoMapping, config: ServiceConfig): JobNeeds {
  const missingCredential = findMissingCredential(undefined, config)
  return {
    key: ['publish', remote, missingCredential ?? ''].join('\n'),
    ...(missingCredential === undefined ? {} : { missingCredential }),
    subjects: [],
  }
}

function needsOf(provider: AgentProvider, remote: string, config: ServiceConfig): JobNeeds {
  const agent = config.agent.commands[provider] === undefined ? provider : undefined
  const missingCredential = findUnusableCredential(provider, config) ?? findMissingCredential(agent, config)
  const subjects = [
    remoteSubject(remote),
    refusedCredentialSubject(config.codehost.driver),
    missingCredentialSubject(config.codehost.driver),
    refusedCredentialSubject(provider),
    missingCredentialSubject(provider),
    agentSubject(provider),
  ]
  const limitsMemory = config.sandbox.memoryMib !== undefined
  const parts = [remote, config.codehost.driver, provider, agent ?? '', missingCredential ?? '']
  return {
    key: [...parts, limitsMemory].join('\n'),
    ...(agent === undefined ? {} : { agent }),
    ...(limitsMemory ? { limitsMemory } : {}),
    ...(missingCredential === undefined ? {} : { missingCredential }),
    subjects,
  }
}

function findUnusableCredential(provider: AgentProvider, { agent }: ServiceConfig): string | undefined {
  const kind = agentCredential(provider, agent)?.kind
  return agent.keyInSandbox || !worksOnlyInSandbox(provider, kind)
    ? undefined
    : withCure(refusedCredentialSubject(provider), keyInSandboxCure(provider))
}

/** Whether the agent's program cannot use such a credential through the worker. */
export function worksOnlyInSandbox(provider: AgentProvider, kind: string | undefined): boolean {
  return AGENTS[provider].credentials.some(
    (credential) => credential.kind === kind && credential.worksOnlyInSandbox === true,
  )
}

/** The cure for such a credential; hosts and workers write the same words. */
export function keyInSandboxCure(provider: AgentProvider): string {
  const [{ field }] = AGENTS[provider].credentials
  return `a ${AGENTS[provider].productName} login works only inside the sandbox; set agent.${field}, or agent.keyInSandbox to true`
}

/** A command of the operator's own brings its credential along. */
function findMissingCredential(agent: AgentProvider | undefined, config: ServiceConfig): string | undefined {
  const { driver, token = '' } = config.codehost
  if (!isFolder(CODE_HOST_FACTS[driver]) && token === '')
    return withCure(missingCredentialSubject(driver), `connect ${driver}, or set codehost.token`)
  if (agent === undefined || agentCredential(agent, config.agent) !== undefined) return undefined
  return withCure(missingCredentialSubject(agent), missingAgentCure(agent))
}

/** The cure for an agent without a credential; hosts and workers write the same words. */
export function missingAgentCure(agent: AgentProvider): string {
  const fields = AGENTS[agent].credentials.map(({ field }) => `agent.${field}`)
  return `connect ${agent}, or set ${fields.join(' or ')}`
}
