/**
 * Putting checked credentials on disk, and whose word counts when several people, or several flows, speak at once.
 *
 * Everybody who begins to connect or to disconnect takes a turn. A later turn that comes to saving first has the last
 * word: what an earlier one brings after it is refused, however long it took. So nobody who disconnects is connected
 * again by a consent page that was open in another window. The settings that the credential was checked with have to
 * be the same, too: a token must not end up with another provider.
 */
import type { CredentialChange } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { mergePatch } from '../../core/settings/merge.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectProvider } from '../../protocol/connect.ts'
import { credentialProblem } from './credential-rules.ts'
import type { ProviderRequests } from './provider-requests.ts'
import { safeText } from './safe-text.ts'

/** Where things stood when somebody began. */
export interface ConnectAttempt {
  readonly provider: ConnectProvider
  readonly number: number
  /** The settings that say which provider it is; null: they don't matter. */
  readonly providerSettings: string | null
  readonly wasConnected: boolean
}

export type SaveCredentials = (
  change: CredentialChange,
  still?: (config: ServiceConfig) => boolean,
) => Promise<Result<void>>

export interface CredentialWriterPorts {
  readonly config: () => ServiceConfig
  readonly save: SaveCredentials
  /** Flows of that provider with an earlier turn come to nothing. */
  readonly supersede: (provider: ConnectProvider, attempt: number, reason: string) => void
}

export const SUPERSEDED = 'the credential was set or removed in another way since, and that counts'
export const SETTINGS_CHANGED =
  'the settings of this provider were changed, or it was disconnected, meanwhile; begin again'

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

  /** Of somebody who disconnects: that is right whatever else has changed. */
  beginDisconnect(provider: ConnectProvider): ConnectAttempt {
    return { provider, number: ++this.#lastNumber, providerSettings: null, wasConnected: false }
  }

  /** Why what was begun then must not be finished. */
  problemWith(attempt: ConnectAttempt, config = this.#ports.config()): string | undefined {
    const { provider, number, providerSettings, wasConnected } = attempt
    if ((this.#savedAttempts.get(provider) ?? 0) > number) return SUPERSEDED
    if (providerSettings !== null && providerSettings !== providerSettingsOf(config, provider))
      return SETTINGS_CHANGED
    return wasConnected && !isConnected(config, provider) ? SETTINGS_CHANGED : undefined
  }

  /** Checks a credential in its place, then saves it. Answers whose it is. */
  async checkAndSave(
    attempt: ConnectAttempt,
    change: CredentialChange,
    check: (config: ServiceConfig) => Promise<Result<string>>,
    who: string,
  ): Promise<Result<string>> {
    const secrets = secretsIn(change)
    const unusable = headerSecretsIn(change)
      .map(credentialProblem)
      .find((problem) => problem !== undefined)
    if (unusable !== undefined)
      return no('failed', `${who} gave something that is no credential: it ${unusable}`)
    const checked = await this.#requests.requestInFlow(who, () =>
      check(withChange(this.#ports.config(), change)),
    )
    if (!checked.ok) return no(checked.refusal.kind, safeText(checked.refusal.message, secrets))
    const saved = await this.save([attempt], change)
    return saved.ok ? yes(safeText(checked.value, secrets)) : saved
  }

  /** From now on these have the last word, on disk or not: whoever began earlier comes to nothing. */
  async save(attempts: readonly ConnectAttempt[], change: CredentialChange): Promise<Result<void>> {
    const problem = this.#firstProblem(attempts)
    if (problem !== undefined) return no('conflict', problem)
    for (const { provider, number } of attempts) {
      this.#savedAttempts.set(provider, number)
      this.#ports.supersede(provider, number, SUPERSEDED)
    }
    let isWaiting = true
    // Asked again at the last moment: between here and there other changes may be written, or we have given up.
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

/** A configuration as it would be. */
export function withChange(config: ServiceConfig, change: CredentialChange): ServiceConfig {
  // Credentials are optional texts, so setting or removing them leaves the shape as it is.
  return mergePatch(config, change) as ServiceConfig
}

export function secretsIn(change: CredentialChange): string[] {
  const { agentBLogin, agentCLogin } = change.agent ?? {}
  return [...headerSecretsIn(change), ...texts([agentBLogin, agentCLogin])]
}

/** What goes into a header as it is; a login is a file's text. */
function headerSecretsIn({ tracker, codehost, agent = {} }: CredentialChange): string[] {
  const { agentAApiKey, agentAOauthToken, agentBApiKey, agentCApiKey } = agent
  const agentSecrets = [agentAApiKey, agentAOauthToken, agentBApiKey, agentCApiKey]
  return texts([tracker?.apiKey, tracker?.refreshToken, codehost?.token, ...agentSecrets])
}

const texts = (values: readonly (string | null | undefined)[]): string[] =>
  values.filter((value) => typeof value === 'string')

function isConnected({ tracker, codehost, agent }: ServiceConfig, provider: ConnectProvider): boolean {
  const credentials = {
    tracker: [tracker.apiKey],
    codehost: [codehost.token],
    agentA: [agent.agentAApiKey, agent.agentAOauthToken],
    agentB: [agent.agentBApiKey, agent.agentBLogin],
    agentC: [agent.agentCApiKey, agent.agentCLogin],
  }
  return credentials[provider].some((credential) => credential !== undefined && credential !== '')
}

function providerSettingsOf(
  { tracker, codehost, connect }: ServiceConfig,
  provider: ConnectProvider,
): string {
  if (provider === 'tracker')
    return JSON.stringify([tracker.driver, tracker.apiUrl, connect.trackerClientId, connect.apiBase])
  if (provider === 'codehost')
    return JSON.stringify([codehost.driver, codehost.apiUrl, connect.codehostClientId, connect.apiBase])
  return ''
}
