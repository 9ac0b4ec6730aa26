/**
 * Credentials that a person gives, or takes back, by hand: each checked with its provider, all of them at once; those
 * that are good are saved together, and each that is not says why. What was not sent is not touched.
 */

import type { Log } from '../../core/ports.ts'
import type { Accounts, CredentialChange } from '../../core/provider-ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type {
  ConnectProvider,
  CredentialResult,
  CredentialsRequest,
  CredentialsResponse,
} from '../../protocol/connect.ts'
import { credentialProblem, fieldChange } from './credential-rules.ts'
import { type Keeping, type Stance, withChange } from './credential-writer.ts'
import { NAMES } from './messages.ts'
import type { Questions } from './provider-requests.ts'
import { sentence } from './safe-text.ts'

type Field = keyof CredentialsRequest
type Results = CredentialsResponse['results']

const PROVIDERS = {
  trackerApiKey: 'tracker',
  codehostToken: 'codehost',
  agentAApiKey: 'agentA',
  agentCApiKey: 'agentC',
} as const satisfies Readonly<Record<Field, ConnectProvider>>

/** A tracker's OAuth tokens, which live for a day. */
const TRACKER_OAUTH_TOKEN = /^lin_oauth_/
const WITHOUT_REFRESH =
  "this OAuth token runs out within a day and can't be renewed here; connect the tracker instead, or give a personal API key"

export interface CredentialPorts {
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly redacted: () => ServiceConfig
  readonly accounts: Accounts
}

/** A field whose value may be saved. */
interface Good {
  readonly field: Field
  readonly stance: Stance
  readonly change: CredentialChange
  readonly detail: string
}

export class Credentials {
  readonly #ports: CredentialPorts
  readonly #questions: Questions
  readonly #keeping: Keeping

  constructor(ports: CredentialPorts, questions: Questions, keeping: Keeping) {
    this.#ports = ports
    this.#questions = questions
    this.#keeping = keeping
  }

  async change(request: CredentialsRequest): Promise<Result<CredentialsResponse>> {
    const results: Results = {}
    const sent = Object.keys(PROVIDERS).filter((name): name is Field => Object.hasOwn(request, name))
    const checked = await Promise.all(
      sent.map((field) => this.#checked(field, request[field] ?? '', results)),
    )
    await this.#save(
      checked.filter((one) => one !== undefined),
      results,
    )
    return yes({ results, config: this.#ports.redacted() })
  }

  /** undefined: it is not good, and its result says why. */
  async #checked(field: Field, value: string, results: Results): Promise<Good | undefined> {
    const provider = PROVIDERS[field]
    const change = fieldChange[field](value)
    if (value === '')
      return { field, change, stance: this.#keeping.leaving(provider), detail: 'disconnected' }
    const stance = this.#keeping.stance(provider)
    const problem = credentialProblem(value)
    if (problem !== undefined) {
      this.#refuse(field, `the value ${problem}`, results)
      return undefined
    }
    const config = withChange(this.#ports.config(), change)
    const checked = await this.#questions.ask(NAMES[provider], () => this.#check(field, config))
    if (checked.ok)
      return { field, stance, change, detail: detailOf(field, value, sentence(checked.value, [value])) }
    this.#refuse(field, sentence(checked.refusal.message, [value]), results)
    return undefined
  }

  #check(field: Field, config: ServiceConfig): Promise<Result<string>> {
    const { accounts } = this.#ports
    if (field === 'trackerApiKey') return accounts.checkTracker(config)
    if (field === 'codehostToken') return accounts.checkCodehost(config)
    return accounts.checkAgent(config, PROVIDERS[field])
  }

  /** In one piece. What has been overtaken meanwhile is left out, and the others are saved all the same. */
  async #save(good: readonly Good[], results: Results): Promise<void> {
    const current = good.filter((one) => this.#isCurrent(one, results))
    if (current.length === 0) return
    const change = current.reduce<CredentialChange>((all, one) => joined(all, one.change), {})
    const kept = await this.#keeping.keep(
      current.map(({ stance }) => stance),
      change,
    )
    if (kept.ok) {
      for (const { field, detail } of current) results[PROVIDERS[field]] = { ok: true, detail }
      this.#ports.log.info({ providers: current.map(({ field }) => PROVIDERS[field]) }, 'credentials changed')
      return
    }
    const { message } = kept.refusal
    const stillCurrent = current.filter(({ stance }) => this.#keeping.problem(stance) === undefined)
    if (stillCurrent.length < current.length) return this.#save(current, results)
    for (const { field } of current) this.#refuse(field, message, results)
  }

  #isCurrent({ field, stance }: Good, results: Results): boolean {
    const problem = this.#keeping.problem(stance)
    if (problem === undefined) return true
    this.#refuse(field, problem, results)
    return false
  }

  #refuse(field: Field, detail: string, results: Results): void {
    const result: CredentialResult = { ok: false, detail }
    results[PROVIDERS[field]] = result
    this.#ports.log.warn({ provider: PROVIDERS[field], reason: detail }, 'a credential was not taken')
  }
}

function detailOf(field: Field, value: string, detail: string): string {
  return field === 'trackerApiKey' && TRACKER_OAUTH_TOKEN.test(value)
    ? `${detail}; ${WITHOUT_REFRESH}`
    : detail
}

/** Two agents share a section; a null in it says something, and has to stay. */
function joined(one: CredentialChange, other: CredentialChange): CredentialChange {
  if (one.agent === undefined || other.agent === undefined) return { ...one, ...other }
  return { ...one, ...other, agent: { ...one.agent, ...other.agent } }
}
