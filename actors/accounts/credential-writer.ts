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
import { merge } from '../../core/settings/merge.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectProvider } from '../../protocol/connect.ts'
import { credentialProblem } from './credential-rules.ts'
import type { Questions } from './provider-requests.ts'
import { sentence } from './safe-text.ts'

/** Where things stood when somebody began. */
export interface Stance {
  readonly provider: ConnectProvider
  readonly turn: number
  /** The settings that say which provider it is; null: they don't matter. */
  readonly place: string | null
  readonly wasConnected: boolean
}

export type Save = (
  change: CredentialChange,
  still?: (config: ServiceConfig) => boolean,
) => Promise<Result<void>>

export interface KeepingPorts {
  readonly config: () => ServiceConfig
  readonly save: Save
  /** Flows of that provider with an earlier turn come to nothing. */
  readonly supersede: (provider: ConnectProvider, turn: number, reason: string) => void
}

export const CHANGED_SINCE = 'the credential was set or removed in another way since, and that counts'
export const MOVED =
  'the settings of this provider were changed, or it was disconnected, meanwhile; begin again'

const FILE = 'the configuration file'

export class Keeping {
  readonly #ports: KeepingPorts
  readonly #questions: Questions
  readonly #claimed = new Map<ConnectProvider, number>()
  #turn = 0

  constructor(ports: KeepingPorts, questions: Questions) {
    this.#ports = ports
    this.#questions = questions
  }

  stance(provider: ConnectProvider): Stance {
    const config = this.#ports.config()
    const wasConnected = isConnected(config, provider)
    return { provider, turn: ++this.#turn, place: placeOf(config, provider), wasConnected }
  }

  /** Of somebody who disconnects: that is right whatever else has changed. */
  leaving(provider: ConnectProvider): Stance {
    return { provider, turn: ++this.#turn, place: null, wasConnected: false }
  }

  /** Why what was begun then must not be finished. */
  problem(stance: Stance, config = this.#ports.config()): string | undefined {
    const { provider, turn, place, wasConnected } = stance
    if ((this.#claimed.get(provider) ?? 0) > turn) return CHANGED_SINCE
    if (place !== null && place !== placeOf(config, provider)) return MOVED
    return wasConnected && !isConnected(config, provider) ? MOVED : undefined
  }

  /** Checks a credential in its place, then saves it. Answers whose it is. */
  async establish(
    stance: Stance,
    change: CredentialChange,
    check: (config: ServiceConfig) => Promise<Result<string>>,
    who: string,
  ): Promise<Result<string>> {
    const secrets = secretsIn(change)
    const unsound = keysIn(change)
      .map(credentialProblem)
      .find((problem) => problem !== undefined)
    if (unsound !== undefined)
      return no('failed', `${who} gave something that is no credential: it ${unsound}`)
    const checked = await this.#questions.goOn(who, () => check(withChange(this.#ports.config(), change)))
    if (!checked.ok) return no(checked.refusal.kind, sentence(checked.refusal.message, secrets))
    const kept = await this.keep([stance], change)
    return kept.ok ? yes(sentence(checked.value, secrets)) : kept
  }

  /** From now on these have the last word, on disk or not: whoever began earlier comes to nothing. */
  async keep(stances: readonly Stance[], change: CredentialChange): Promise<Result<void>> {
    const problem = this.#firstProblem(stances)
    if (problem !== undefined) return no('conflict', problem)
    for (const { provider, turn } of stances) {
      this.#claimed.set(provider, turn)
      this.#ports.supersede(provider, turn, CHANGED_SINCE)
    }
    let isAwaited = true
    // Asked again at the last moment: between here and there other changes may be written, or we have given up.
    const still = (config: ServiceConfig) => isAwaited && this.#firstProblem(stances, config) === undefined
    const saved = await this.#questions.goOn(FILE, () => this.#ports.save(change, still))
    isAwaited = false
    if (saved.ok) return saved
    const since = saved.refusal.kind === 'conflict' ? this.#firstProblem(stances) : undefined
    return no(saved.refusal.kind, since ?? sentence(saved.refusal.message, secretsIn(change)))
  }

  #firstProblem(stances: readonly Stance[], config = this.#ports.config()): string | undefined {
    return stances.map((stance) => this.problem(stance, config)).find((problem) => problem !== undefined)
  }
}

/** A configuration as it would be. */
export function withChange(config: ServiceConfig, change: CredentialChange): ServiceConfig {
  // Credentials are optional texts, so setting or removing them leaves the shape as it is.
  return merge(config, change) as ServiceConfig
}

export function secretsIn(change: CredentialChange): string[] {
  const { agentBLogin, agentCLogin } = change.agent ?? {}
  return [...keysIn(change), ...texts([agentBLogin, agentCLogin])]
}

/** What goes into a header as it is; a login is a file's text. */
function keysIn({ tracker, codehost, agent = {} }: CredentialChange): string[] {
  const { agentAApiKey, agentAOauthToken, agentBApiKey, agentCApiKey } = agent
  const ofAgents = [agentAApiKey, agentAOauthToken, agentBApiKey, agentCApiKey]
  return texts([tracker?.apiKey, tracker?.refreshToken, codehost?.token, ...ofAgents])
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
  return credentials[provider].some((one) => one !== undefined && one !== '')
}

function placeOf({ tracker, codehost, connect }: ServiceConfig, provider: ConnectProvider): string {
  if (provider === 'tracker')
    return JSON.stringify([tracker.driver, tracker.apiUrl, connect.trackerClientId, connect.apiBase])
  if (provider === 'codehost')
    return JSON.stringify([codehost.driver, codehost.apiUrl, connect.codehostClientId, connect.apiBase])
  return ''
}
