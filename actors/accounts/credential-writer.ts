/**
 * CredentialWriter checks credentials, saves them, and decides between attempts that run at the same time.
 *
 * Attempts to connect or disconnect are numbered. Once an attempt has saved, all attempts with lower numbers are
 * refused. So a consent page left open in another window cannot undo a later disconnect. An attempt is also refused
 * when the provider's settings changed since it began: a token must not reach another provider.
 */

import type { Accounts, CredentialChange } from '../../core/ports/accounts.ts'
import type { Bucket } from '../../core/ports/bucket.ts'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { credentialFieldFor } from '../../core/settings/agent-credentials.ts'
import { trackerOrigin } from '../../core/settings/credential-origins.ts'
import type { CredentialDefinition } from '../../protocol/agents/agent-definition.ts'
import { AGENTS, type AgentProvider } from '../../protocol/agents/registry.ts'
import { MASK, type ServiceConfig } from '../../protocol/config.ts'
import {
  CREDENTIAL_PROVIDERS,
  type CredentialProvider,
  type CredentialsRequest,
} from '../../protocol/connect.ts'
import { CREDENTIAL_CHARS_MAX } from '../../protocol/limits.ts'
import { mergePatch } from '../../protocol/merge-patch.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { safeText } from './messages.ts'
import type { ProviderRequests } from './provider-requests.ts'

/** An attempt to connect or disconnect, with the settings at its beginning. */
export interface ConnectAttempt {
  readonly provider: CredentialProvider
  readonly number: number
  /** The settings that identify the provider, as text; null when a change of settings does not matter. */
  readonly providerSettings: string | null
  readonly wasConnected: boolean
}

export type SaveCredentialChange = (
  change: CredentialChange,
  still?: (config: ServiceConfig) => boolean,
) => Promise<Result<void>>

/** The ports that every part of the accounts module uses. */
export interface AccountPorts {
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'bytes'>
  readonly log: Log
  readonly system: Pick<ActorSystem, 'spawn' | 'send' | 'peek'>
  readonly config: () => ServiceConfig
  readonly redacted: () => ServiceConfig
  readonly accounts: Accounts
  readonly bucket: Bucket
  /** The management port, on which browsers reach the callback; undefined until the host listens. */
  readonly port: () => number | undefined
  /** Resolves when the change is durable and published. Refuses with `conflict` when `still` returns false. */
  readonly save: SaveCredentialChange
}

/** Fails all flows of this provider whose attempt number is lower than `attempt`. */
type Supersede = (provider: CredentialProvider, attempt: number, reason: string) => void

export const SUPERSEDED = 'a later change set or removed this credential, and the later change counts'
export const SETTINGS_CHANGED =
  'the settings of this provider were changed, or it was disconnected, in the meantime; connect again'

const CONFIG_FILE = 'the configuration file'

export class CredentialWriter {
  readonly #ports: AccountPorts
  readonly #requests: ProviderRequests
  readonly #supersede: Supersede
  readonly #savedAttempts = new Map<CredentialProvider, number>()
  #lastNumber = 0

  constructor(ports: AccountPorts, requests: ProviderRequests, supersede: Supersede) {
    this.#ports = ports
    this.#requests = requests
    this.#supersede = supersede
  }

  beginConnect(provider: CredentialProvider): ConnectAttempt {
    const config = this.#ports.config()
    const providerSettings = providerSettingsOf(config, provider)
    const wasConnected = isConnected(config, provider)
    return { provider, number: ++this.#lastNumber, providerSettings, wasConnected }
  }

  /** Begins a disconnect, which stays valid whatever settings change. */
  beginDisconnect(provider: CredentialProvider): ConnectAttempt {
    return { provider, number: ++this.#lastNumber, providerSettings: null, wasConnected: false }
  }

  /** Returns why the attempt must not be saved any more, or undefined. */
  problemWith(attempt: ConnectAttempt, config = this.#ports.config()): string | undefined {
    const { provider, number, providerSettings, wasConnected } = attempt
    if ((this.#savedAttempts.get(provider) ?? 0) > number) return SUPERSEDED
    if (providerSettings !== null && providerSettings !== providerSettingsOf(config, provider))
      return SETTINGS_CHANGED
    return wasConnected && !isConnected(config, provider) ? SETTINGS_CHANGED : undefined
  }

  /** Checks a credential within the full configuration, then saves it. Returns the account's name. */
  async checkAndSave(
    attempt: ConnectAttempt,
    change: CredentialChange,
    check: (config: ServiceConfig) => Promise<Result<string>>,
    provider: string,
  ): Promise<Result<string>> {
    const secrets = secretsIn(change)
    const unusable = headerSecretsIn(change)
      .map(credentialProblem)
      .find((problem) => problem !== undefined)
    if (unusable !== undefined)
      return no('failed', `${provider} returned an unusable credential: the value ${unusable}`)
    const config = this.#ports.config()
    // The settings may have changed since the provider issued the credential; another one must not receive it.
    const problem = this.problemWith(attempt, config)
    if (problem !== undefined) return no('conflict', problem)
    const checked = await this.#requests.requestInFlow(provider, () => check(withChange(config, change)))
    if (!checked.ok) return no(checked.refusal.kind, safeText(checked.refusal.message, secrets))
    const saved = await this.save([attempt], change)
    return saved.ok ? yes(safeText(checked.value, secrets)) : saved
  }

  /** Saves the change. Earlier attempts are refused from now on, even when this save fails. */
  async save(attempts: readonly ConnectAttempt[], change: CredentialChange): Promise<Result<void>> {
    const problem = this.#firstProblem(attempts)
    if (problem !== undefined) return no('conflict', problem)
    for (const { provider, number } of attempts) {
      this.#savedAttempts.set(provider, number)
      this.#supersede(provider, number, SUPERSEDED)
    }
    let isWaiting = true
    // The configuration file checks this just before writing: other changes may come first, or the request may end.
    const isStillCurrent = (config: ServiceConfig) =>
      isWaiting && this.#firstProblem(attempts, config) === undefined
    const saved = await this.#requests.requestInFlow(CONFIG_FILE, () =>
      this.#ports.save(change, isStillCurrent),
    )
    isWaiting = false
    if (saved.ok) return saved
    const problemNow = saved.refusal.kind === 'conflict' ? this.#firstProblem(attempts) : undefined
    return no(saved.refusal.kind, problemNow ?? safeText(saved.refusal.message, secretsIn(change)))
  }

  #firstProblem(attempts: readonly ConnectAttempt[], config = this.#ports.config()): string | undefined {
    return attempts
      .map((attempt) => this.problemWith(attempt, config))
      .find((problem) => problem !== undefined)
  }
}

/** Returns the configuration with the change applied. */
export function withChange(config: ServiceConfig, change: CredentialChange): ServiceConfig {
  // Credentials are optional strings, so the result still satisfies the schema.
  return mergePatch(config, change) as ServiceConfig
}

export function secretsIn(change: CredentialChange): string[] {
  return [...headerSecretsIn(change), ...agentSecretsIn(change, ({ kind }) => kind === 'login')]
}

/** Returns the credentials that are sent as a header value. Agent logins are whole files and are left out. */
function headerSecretsIn(change: CredentialChange): string[] {
  const { tracker, codehost, storage } = change
  const agentSecrets = agentSecretsIn(change, ({ kind }) => kind !== 'login')
  return texts([tracker?.apiKey, tracker?.refreshToken, codehost?.token, storage?.token, ...agentSecrets])
}

function agentSecretsIn(
  { agent = {} }: CredentialChange,
  isWanted: (credential: CredentialDefinition) => boolean,
): string[] {
  const credentials = Object.values(AGENTS).flatMap((definition) => definition.credentials)
  return texts(credentials.filter(isWanted).map(({ field }) => agent[field]))
}

const texts = (values: readonly (string | null | undefined)[]): string[] =>
  values.filter((value) => typeof value === 'string')

function isConnected(config: ServiceConfig, provider: CredentialProvider): boolean {
  return credentialsOf(config, provider).some((credential) => credential !== undefined && credential !== '')
}

function credentialsOf(
  { tracker, codehost, storage, agent }: ServiceConfig,
  provider: CredentialProvider,
): readonly (string | undefined)[] {
  if (provider === 'tracker') return [tracker.apiKey]
  if (provider === 'codehost') return [codehost.token]
  if (provider === 'storage') return [storage.token]
  return AGENTS[provider].credentials.map(({ field }) => agent[field])
}

function providerSettingsOf(config: ServiceConfig, provider: CredentialProvider): string {
  const { tracker, codehost, connect } = config
  if (provider === 'tracker')
    return JSON.stringify([
      trackerOrigin(config),
      tracker.driver,
      tracker.apiUrl,
      connect.trackerClientId,
      connect.apiBase,
    ])
  if (provider === 'codehost')
    return JSON.stringify([codehost.driver, codehost.apiUrl, connect.codehostClientId, connect.apiBase])
  return ''
}

// ---- which texts may be credentials, and which fields they fill --------------------------------------------------

/** Returns the end of a sentence that begins with "the value", or undefined when the value may be a credential. */
export function credentialProblem(value: string): string | undefined {
  if (value === '') return 'is empty'
  if (value === MASK) return 'is the mask, not a credential; leave the field out to keep what is stored'
  if (value.length > CREDENTIAL_CHARS_MAX) return `is longer than ${CREDENTIAL_CHARS_MAX} characters`
  if (/[\r\n]/.test(value)) return 'holds a line end; give the credential alone, on one line'
  if (/\s/.test(value)) return 'holds a space; give the credential alone'
  return /^[!-~]*$/.test(value)
    ? undefined
    : 'holds a character that no credential has (a control character, or one beyond ASCII); copy it again'
}

/**
 * Returns the configuration change for a request field. An empty value disconnects the provider.
 *
 * A new credential replaces all credentials of its provider. Otherwise an old login would come back into use when the
 * person removes the key that had hidden it.
 */
export function changeForField(field: keyof CredentialsRequest, value: string): CredentialChange {
  const provider = CREDENTIAL_PROVIDERS[field]
  if (provider === 'tracker')
    return { tracker: { apiKey: value || null, refreshToken: null, tokenExpiresAt: null } }
  if (provider === 'codehost') return { codehost: { token: value || null } }
  if (provider === 'storage') return { storage: { token: value || null } }
  return changeForAgent(provider, { [credentialFieldFor(provider, value)]: value || null })
}

/** Sets the given fields of this agent, removes its other fields, and ignores fields of other agents. */
export function changeForAgent(
  provider: AgentProvider,
  given: NonNullable<CredentialChange['agent']>,
): CredentialChange {
  const fields = AGENTS[provider].credentials.map(({ field }) => [field, given[field] ?? null] as const)
  return { agent: Object.fromEntries(fields) }
}
