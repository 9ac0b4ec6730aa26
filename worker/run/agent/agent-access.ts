/**
 * `openAgentAccess` prepares how an agent reaches its model: through the worker, which adds the credential outside.
 *
 * The agent then gets a placeholder and an address on the sandbox's loopback. Only where the configuration asks for it
 * does the agent get the credential itself. Without a credential the agent's own command brings one along.
 */

import { type Refused, type Result, yes } from '../../../core/result.ts'
import { keyInSandboxCure, worksOnlyInSandbox } from '../../../core/run/job-needs.ts'
import { type PriceTable, withOwnPrices } from '../../../core/run/price.ts'
import { PRICES } from '../../../core/run/price-table.ts'
import { refusedCredentialSubject, withCure } from '../../../core/run/queue-reasons.ts'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import type { JobSandbox, RunCredentials } from '../../../protocol/frames.ts'
import type { ModelMeter } from '../../model-api/meter.ts'
import { type AgentCredential, modelHosts, openModelAccess } from '../../model-api/model-access.ts'
import { openModelApi } from '../../model-api/model-api.ts'
import type { ModelRules } from '../../model-api/model-gate.ts'
import { MODEL_API_PORT } from '../../sandbox/inside-paths.ts'
import { secretsOfCredential } from '../../secrets/run-secrets.ts'
import type { ExecutorDependencies } from '../execution/executor-dependencies.ts'

export interface AgentAccess {
  /** The agent's program logs in with it: a placeholder, or the credential itself. */
  readonly credential?: AgentCredential
  /** The address of the model's API inside; absent: the agent contacts its vendor itself. */
  readonly modelApiUrl?: string
  /** Host path of the socket behind that address. */
  readonly modelSocket?: string
  /** The parts of the credential to redact from outputs. */
  readonly secrets: readonly string[]
  /** Ends all requests to the model. */
  close(): Promise<void>
}

export interface AgentAccessOptions {
  readonly dependencies: Pick<ExecutorDependencies, 'clock' | 'isRoot' | 'userFor' | 'modelUpstream'>
  readonly provider: AgentProvider
  readonly credentials: RunCredentials
  /** The run's folder on the host, and the number of its sandbox. */
  readonly folders: { readonly root: string; readonly number: number }
  readonly meter?: ModelMeter
  /** Decides what the run's requests may hold. */
  readonly rules: Omit<ModelRules, 'provider'>
  readonly log: (line: string) => void
}

/** The hosts that the agent's program contacts itself: none when the worker contacts them in its place. */
export function hostsOfAgent(
  provider: AgentProvider,
  { agent, keyInSandbox = false }: RunCredentials,
): readonly string[] {
  return agent === undefined || keyInSandbox ? modelHosts(provider) : []
}

/** Rejects when no socket can be created in the folder. */
export async function openAgentAccess(options: AgentAccessOptions): Promise<Result<AgentAccess>> {
  const { dependencies, provider, credentials, folders, meter, rules, log } = options
  const { clock, isRoot, userFor, modelUpstream } = dependencies
  const { agent: credential, keyInSandbox = false } = credentials
  if (credential === undefined) return yes({ secrets: [], close: async () => {} })
  const secrets = secretsOfCredential(credential.value)
  if (keyInSandbox) return yes({ credential, secrets, close: async () => {} })
  if (worksOnlyInSandbox(provider, credential.kind)) return refuse(provider, keyInSandboxCure(provider))
  const access = openModelAccess(provider, credential, clock.now())
  if (!access.ok) return refuse(provider, access.refusal.message)
  const modelApi = await openModelApi({
    access: access.value,
    folder: folders.root,
    ...(isRoot ? { owner: userFor(folders.number) } : {}),
    upstream: modelUpstream,
    ...(meter === undefined ? {} : { meter }),
    rules: { ...rules, provider },
    log,
    clock,
  })
  return yes({
    credential: access.value.placeholder,
    modelApiUrl: `http://127.0.0.1:${MODEL_API_PORT}${access.value.basePath}`,
    modelSocket: modelApi.socketPath,
    secrets,
    close: () => modelApi.close(),
  })
}

export const pricesOf = ({ modelUse }: RunCredentials): PriceTable => withOwnPrices(PRICES, modelUse?.prices)

/**
 * Reads from a run's credentials what its agent may ask its model for, and at which prices.
 *
 * A sandbox without a network has none through its vendor either.
 */
export function vendorRules(
  { modelUse: { serverTools = [], models = [] } = {} }: RunCredentials,
  network: JobSandbox['network'] | undefined,
): Pick<ModelRules, 'serverTools' | 'patterns'> {
  return {
    serverTools: network === 'none' ? [] : serverTools,
    ...(models.length === 0 ? {} : { patterns: models }),
  }
}

const refuse = (provider: AgentProvider, cure: string): Refused => ({
  ok: false,
  refusal: {
    kind: 'failed',
    message: withCure(refusedCredentialSubject(provider), cure),
    failure: 'credentials',
  },
})
