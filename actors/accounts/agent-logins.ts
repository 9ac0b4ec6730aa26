/**
 * Connecting an agent by the login that it has on this machine already; where there is none, a person gives a key.
 *
 * What was found is checked like what is given by hand, and takes the place of all that the agent had.
 */

import type { Log } from '../../core/ports.ts'
import type { Accounts, FoundLogin } from '../../core/provider-ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { AgentProvider, ServiceConfig } from '../../protocol/config.ts'
import type { ConnectResponse } from '../../protocol/connect.ts'
import { agentChange } from './credential-rules.ts'
import { type Keeping, type Stance, secretsIn } from './credential-writer.ts'
import { manual, NAMES } from './messages.ts'
import type { Questions } from './provider-requests.ts'
import { sentence } from './safe-text.ts'

export interface AgentPorts {
  readonly log: Log
  readonly redacted: () => ServiceConfig
  readonly accounts: Accounts
}

export class AgentLogins {
  readonly #ports: AgentPorts
  readonly #questions: Questions
  readonly #keeping: Keeping

  constructor(ports: AgentPorts, questions: Questions, keeping: Keeping) {
    this.#ports = ports
    this.#questions = questions
    this.#keeping = keeping
  }

  async connect(provider: AgentProvider): Promise<Result<ConnectResponse>> {
    const stance = this.#keeping.stance(provider)
    const found = await this.#questions.ask(NAMES[provider], () =>
      this.#ports.accounts.findAgentLogin(provider),
    )
    // Whatever the reason is, a key given by hand remains possible, unless nobody is there to take it.
    if (!found.ok) return this.#questions.isOver ? found : manual(provider, sentence(found.refusal.message))
    return this.#keep(stance, provider, found.value)
  }

  async #keep(
    stance: Stance,
    provider: AgentProvider,
    { credential, detail }: FoundLogin,
  ): Promise<Result<ConnectResponse>> {
    const { log, redacted } = this.#ports
    const change = agentChange(provider, credential)
    const secrets = secretsIn(change)
    if (secrets.length === 0) return manual(provider, 'the login found on this machine holds no credential')
    const account = sentence(detail, secrets)
    const check = (config: ServiceConfig) => this.#ports.accounts.checkAgent(config, provider)
    const kept = await this.#keeping.establish(stance, change, check, NAMES[provider])
    if (kept.ok) {
      log.info({ provider, account }, 'an agent is connected by a login found on this machine')
      return yes({ status: 'connected', provider, detail: account, config: redacted() })
    }
    const { kind, message } = kept.refusal
    if (kind === 'conflict' || this.#questions.isOver) return kept
    return manual(provider, `${account} was found on this machine, but can't be used: ${message}`)
  }
}
