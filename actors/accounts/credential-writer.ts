/**
 * CredentialWriter checks credentials, saves them, and decides between attempts that run at the same time.
 *
 * Attempts to connect or disconnect are numbered. Once an attempt has saved, all attempts with lower numbers are
 * refused. So a consent page left open in another window cannot undo a later disconnect. An attempt is also refused
 * when the provider's settings changed since it began: a token must not reach another provider.
 */
import type { CredentialChange } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { trackerOrigin } from '../../core/settings/credential-origins.ts'
import type { CredentialDefinition } from '../../protocol/agents/agent-definition.ts'
import { AGENTS } from '../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectProvider } from '../../protocol/connect.ts'
import { mergePatch } from '../../protocol/merge-patch.ts'
import { credentialProblem } from './credential-rules.ts'
import type { ProviderRequests } from './provider-requests.ts'
import { safeText } from './safe-text.ts'

/** An attempt to connect or disconnect, with the settings at its beginning. */
export interface ConnectAttempt {
  readonly provider: ConnectProvider
  readonly number: number
  /** The settings that identify the provider, as text; null when a change of settings does not matter. */
  readonly providerSettings: string | null
  readonly wasConnected: boolean
}

export type SaveCredentialChange = (
  change: CredentialChange,
  still?: (config: ServiceConfig) => boolean,
) => Promise<Result<void>>

export interface CredentialWriterPorts {
  readonly config: () => ServiceConfig
  readonly save: SaveCredentialChange
  /** Fails all flows of this provider whose attempt number is lower than `attempt`. */
  readonly supersede: (provider: ConnectProvider, attempt: number, reason: string) => void
}

export const SUPERSEDED = 'a later change set or removed this credential, and the later change counts'
export const SETTINGS_CHANGED =
  'the settings of this provider were changed, or it was disconnected, in the meantime; connect again'

const CONFIG_FILE = 'the configuration file'

export class CredentialWriter {
  readonly #ports: CredentialWriterPorts
  readonly #requests: ProviderRequests
  readonly #savedAttempts = new Map<ConnectProvider, number>()
  #lastNumber = 0

  constructor(ports: CredentialWriterPorts, requests: ProviderRequests) {
    this.#ports = ports
    this.#requests = requests
  }

  beginConnect(provider: ConnectProvider): ConnectAttempt {
    const config = this.#ports.config()
    const wasConnected = isConnected(config, provider)
    return {
      provider,
      number: ++this.#lastNumber,
      providerSettings: providerSettingsOf(config, provider),
      wasConnected,
    }
  }

  /** Begins a disconnect, which stays valid whatever settings change. */
  beginDisconnect(provider: ConnectProvider): ConnectAttempt {
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
      this.#ports.supersede(provider, number, SUPERSEDED)
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
  const { tracker, codehost } = change
  const agentSecrets = agentSecretsIn(change, ({ kind }) => kind !== 'login')
  return texts([tracker?.apiKey, tracker?.refreshToken, codehost?.token, ...agentSecrets])
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

function isConnected(config: ServiceConfig, provider: ConnectProvider): boolean {
  return credentialsOf(config, provider).some((credential) => credential !== undefined && credential !== '')
}

function credentialsOf(
  { tracker, codehost, agent }: ServiceConfig,
  provider: ConnectProvider,
): readonly (string | undefined)[] {
  if (provider === 'tracker') return [tracker.apiKey]
  if (provider === 'codehost') return [codehost.token]
  return AGENTS[provider].credentials.map(({ field }) => agent[field])
}

function providerSettingsOf(config: ServiceConfig, provider: ConnectProvider): string {
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
