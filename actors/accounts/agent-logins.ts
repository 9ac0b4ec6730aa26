/**
 * AgentLogins connects an agent with the login that its own program keeps on this machine.
 *
 * A found login is checked like a key given by hand and replaces all credentials of that agent. When no usable login
 * exists, the reply asks the person for a key.
 */
import type { Log } from '../../core/ports.ts'
import type { Accounts, FoundLogin } from '../../core/provider-ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectResponse } from '../../protocol/connect.ts'
import { changeForAgent } from './credential-rules.ts'
import { type ConnectAttempt, type CredentialWriter, secretsIn } from './credential-writer.ts'
import { manualConnect, PROVIDER_NAMES } from './messages.ts'
import type { ProviderRequests } from './provider-requests.ts'
import { safeText } from './safe-text.ts'

export interface AgentLoginsPorts {
  readonly log: Log
  readonly redacted: () => ServiceConfig
  readonly accounts: Accounts
}

export class AgentLogins {
  readonly #ports: AgentLoginsPorts
  readonly #requests: ProviderRequests
  readonly #writer: CredentialWriter

  constructor(ports: AgentLoginsPorts, requests: ProviderRequests, writer: CredentialWriter) {
    this.#ports = ports
    this.#requests = requests
    this.#writer = writer
  }

  async connect(provider: AgentProvider): Promise<Result<ConnectResponse>> {
    const attempt = this.#writer.beginConnect(provider)
    const found = await this.#requests.request(PROVIDER_NAMES[provider], () =>
      this.#ports.accounts.findAgentLogin(provider),
    )
    // A key given by hand remains possible after every refusal, except while the service stops.
    if (!found.ok)
      return this.#requests.isStopped ? found : manualConnect(provider, safeText(found.refusal.message))
    return this.#checkAndSave(attempt, provider, found.value)
  }

  async #checkAndSave(
    attempt: ConnectAttempt,
    provider: AgentProvider,
    { credential, detail }: FoundLogin,
  ): Promise<Result<ConnectResponse>> {
    const { log, redacted } = this.#ports
    const change = changeForAgent(provider, credential)
    const secrets = secretsIn(change)
    if (secrets.length === 0)
      return manualConnect(provider, 'the login found on this machine holds no credential')
    const account = safeText(detail, secrets)
    const check = (config: ServiceConfig) => this.#ports.accounts.checkAgent(config, provider)
    const saved = await this.#writer.checkAndSave(attempt, change, check, PROVIDER_NAMES[provider])
    if (saved.ok) {
      log.info({ provider, account }, 'an agent is connected by a login found on this machine')
      return yes({ status: 'connected', provider, detail: account, config: redacted() })
    }
    const { kind, message } = saved.refusal
    if (kind === 'conflict' || this.#requests.isStopped) return saved
    return manualConnect(provider, `${account} was found on this machine, but can't be used: ${message}`)
  }
}
