/** AccountManager on a manual clock, with its real actor kinds; a test decides when the providers answer. */

import { deviceFlowKind } from '../../../actors/accounts/device-flow.machine.ts'
import { type AccountEffect, AccountManager } from '../../../actors/accounts/module.ts'
import { oauthRedirectKind } from '../../../actors/accounts/oauth-redirect.machine.ts'
import { ActorSystem } from '../../../actors/runtime/actor-system.ts'
import type { Accounts, CredentialChange, RedirectAuthorization } from '../../../core/ports/accounts.ts'
import type { Bucket } from '../../../core/ports/bucket.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { decideCredentials } from '../../../core/settings/change.ts'
import { redactConfig } from '../../../core/settings/redact.ts'
import type { CompletedConfig, ServiceConfig } from '../../../protocol/config.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createMemoryStore } from '../../support/memory-store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { createConfig } from '../../support/sample-configs.ts'

interface PendingCall {
  readonly what: string
  readonly config: ServiceConfig | undefined
  readonly order: unknown
  readonly answer: (value: unknown) => void
  readonly fail: (error: Error) => void
}

/** Providers record their calls and answer when the test calls `answer`. */
export class FakeAccountProviders {
  readonly open: PendingCall[] = []
  /** The names of all calls so far. */
  readonly asked: string[] = []
  readonly #settle: () => Promise<void>
  authorization: Result<RedirectAuthorization> | undefined
  readonly states: string[] = []

  constructor(settle: () => Promise<void>) {
    this.#settle = settle
  }

  readonly accounts: Accounts = {
    authorizeTracker: (_config, { state, port }) => {
      this.asked.push('authorize')
      this.states.push(state)
      return (
        this.authorization ??
        yes({
          url: `https://tracker.example/authorize?state=${state}&port=${port}`,
          verifier: 'the-verifier',
        })
      )
    },
    exchangeTrackerCode: (config, order) => this.#ask('exchange', config, order),
    refreshTrackerToken: (config, order) => this.#ask('refresh', config, order),
    checkTracker: (config) => this.#ask('check tracker', config),
    startDevice: (config) => this.#ask('start device', config),
    pollDevice: (config, code) => this.#ask('poll device', config, code),
    checkCodehost: (config) => this.#ask('check codehost', config),
    checkAgent: (config, provider) => this.#ask(`check ${provider}`, config),
    findAgentLogin: (provider) => this.#ask(`find ${provider}`, undefined),
  }

  readonly bucket: Bucket = {
    status: () => this.#ask('bucket status', undefined),
    check: (token) => this.#ask('check bucket', undefined, token),
    login: () => this.#ask('login', undefined),
    upload: () => this.#ask('upload', undefined),
    stop: () => {},
  }

  #ask<T>(what: string, config: ServiceConfig | undefined, order?: unknown): Promise<T> {
    this.asked.push(what)
    return new Promise<T>((resolve, reject) => {
      this.open.push({ what, config, order, answer: (value) => resolve(value as T), fail: reject })
    })
  }

  /** Removes and returns the oldest open call of that name. */
  take(what: string): PendingCall {
    const at = this.open.findIndex((question) => question.what === what)
    const [question] = at === -1 ? [] : this.open.splice(at, 1)
    if (question === undefined)
      throw new Error(`nobody asked to ${what}; open: ${this.open.map((request) => request.what).join(', ')}`)
    return question
  }

  async answer(what: string, value: unknown): Promise<PendingCall> {
    const question = this.take(what)
    question.answer(value)
    await this.#settle()
    return question
  }

  count(what: string): number {
    return this.asked.filter((request) => request === what).length
  }
}

export function createAccountsBench(stored: unknown = {}) {
  const clock = new ManualClock()
  const log = createRecordingLog()
  const providers = new FakeAccountProviders(() => clock.settle())
  let config: CompletedConfig = createConfig(stored)
  let rolled = 0
  const saves: CredentialChange[] = []
  const world = {
    port: 4400 as number | undefined,
    /** When set, saves wait for this promise. */
    gate: undefined as Promise<void> | undefined,
    refuseSave: undefined as Result<never> | undefined,
    breakEffect: undefined as string | undefined,
  }

  const save = async (
    change: CredentialChange,
    still?: (config: ServiceConfig) => boolean,
  ): Promise<Result<void>> => {
    await world.gate
    if (world.refuseSave !== undefined) return world.refuseSave
    if (still?.(config.effective) === false) return no('conflict', 'the settings say no')
    const decided = decideCredentials(config, change)
    if (!decided.ok) return decided
    config = decided.value
    saves.push(change)
    return yes(undefined)
  }

  const system: ActorSystem = new ActorSystem({
    clock,
    database: createMemoryStore({ clock }).database,
    log,
    meters: noMeters,
    kinds: [deviceFlowKind, oauthRedirectKind],
    modules: () => ({ runEffect: (effect) => manager.runEffect(effect as AccountEffect) }),
    onFatal: (reason) => {
      throw new Error(reason)
    },
  })
  const manager = new AccountManager({
    clock,
    log,
    system,
    // Every call returns other bytes, so that no two states are equal.
    random: { bytes: (count) => new Uint8Array(count).fill(++rolled) },
    config: () => config.effective,
    redacted: () => redactConfig(config.effective),
    accounts: providers.accounts,
    bucket: providers.bucket,
    port: () => world.port,
    save,
  })
  return {
    clock,
    log,
    providers,
    system,
    manager,
    saves,
    world,
    config: () => config.effective,
    stored: () => config.stored,
    /** Simulates an edit of the configuration file. */
    edit: (text: unknown) => {
      config = createConfig(text)
    },
    /** The promise's value if it is settled by now, or undefined. */
    async now<T>(promise: Promise<T>): Promise<T | undefined> {
      await clock.settle()
      return Promise.race([promise, Promise.resolve(undefined)])
    },
    loggedText: () => JSON.stringify(log.lines),
  }
}
export type AccountsBench = ReturnType<typeof createAccountsBench>

export const DEVICE_START = {
  deviceCode: 'secret-device-code',
  userCode: 'ABCD-1234',
  verificationUri: 'https://codehost.example/login/device',
  intervalSeconds: 5,
  expiresInSeconds: 900,
}
