/**
 * A script carried out, told in agentA's dialect as it happens, up to the account at its end.
 *
 * Interruptions are looked for between any two steps; what takes long ends early by itself when there is one.
 */
import { type Ended, type Nested, rateLimitInfo } from './stream-lines.ts'
import { MODEL, NO_USAGE, SMALL_MODEL } from './usage-meter.ts'
import type { Deed } from './script.ts'
import { Speech } from './message-writer.ts'
import type { Stage } from './runner-context.ts'
import { type ToolDeed, toolOf, use } from './tools.ts'

export type Finale =
  | { readonly is: 'ended'; readonly isError: boolean; readonly isAborted: boolean; readonly text: string }
  | { readonly is: 'crash'; readonly code?: number }

type Ending = Ended | { readonly crash: number | undefined }

/** Lines between two looks at what else has happened. */
const SPAM_AT_ONCE = 500
const FOREVER_MS = 2 ** 31 - 1

export class Performance {
  readonly #stage: Stage
  readonly #startedAt: number
  readonly #speech: Speech
  #subagents = 0
  #lastWords = ''

  constructor(stage: Stage, prompt: string) {
    this.#stage = stage
    this.#startedAt = stage.now()
    this.#speech = new Speech(stage, prompt)
  }

  async carryOut(deeds: readonly Deed[]): Promise<Finale> {
    for (const deed of deeds) {
      const ending = this.#interrupted() ?? (await this.#do(deed)) ?? this.#interrupted()
      if (ending !== undefined) return this.#finish(ending)
    }
    return this.#finish(this.#closing(deeds.length))
  }

  /** Ends before anything was done. */
  giveUp(text: string): Finale {
    return this.#finish(failure(text))
  }

  // ---- deeds -----------------------------------------------------------------------------------------------------

  async #do(deed: Deed): Promise<Ending | undefined> {
    switch (deed.does) {
      case 'say':
        return this.#say(deed.text)
      case 'subagent':
        return this.#delegate(deed.text)
      case 'wait':
      case 'hang':
      case 'spam':
        return this.#pass(deed)
      case 'crash':
      case 'fail':
      case 'limit':
        return this.#fall(deed)
      default:
        return this.#use(deed)
    }
  }

  /** Nothing is said meanwhile. */
  async #pass(deed: Extract<Deed, { does: 'wait' | 'hang' | 'spam' }>): Promise<undefined> {
    this.#speech.close()
    if (deed.does === 'wait') await this.#stage.sleep(deed.seconds * 1000)
    else if (deed.does === 'spam') await this.#spam(deed.count)
    else await this.#hang(deed.deaf)
  }

  #fall(deed: Extract<Deed, { does: 'crash' | 'fail' | 'limit' }>): Ending {
    this.#speech.close()
    if (deed.does === 'crash') return { crash: deed.code }
    return deed.does === 'fail' ? failure(deed.text) : this.#limit(deed.minutes)
  }

  #say(text: string): Ended | undefined {
    const tooMany = this.#speech.say(text)
    if (tooMany === undefined) this.#lastWords = text
    return tooMany
  }

  async #use(deed: ToolDeed): Promise<Ending | undefined> {
    const { name, input } = toolOf(deed, this.#stage.around)
    const used = this.#speech.call(name, input)
    if ('stopped' in used) return used.stopped
    const { text, isError } = await use(deed, this.#stage.around, this.#stage.signal)
    if (this.#stage.signal.aborted) return undefined
    this.#speech.hear(used.id, text, isError, {
      stdout: text,
      stderr: '',
      interrupted: false,
      isImage: false,
    })
    const isFatal = isError && !FORGIVEN.includes(deed.does)
    return isFatal ? failure(`step ${deed.does} in line ${deed.line} went wrong: ${text}`) : undefined
  }

  #delegate(text: string): Ending | undefined {
    const { dialect, transcript, meter, emit, hex } = this.#stage
    const used = this.#speech.call('Agent', {
      description: 'second model',
      prompt: text,
      run_in_background: false,
    })
    if ('stopped' in used) return used.stopped
    this.#subagents += 1
    const nested: Nested = { toolUseId: used.id, agentId: `a${hex(16)}`, description: 'second model' }
    const message = { id: `msg_${hex(24)}`, requestId: `req_${hex(24)}`, model: SMALL_MODEL }
    const block = { type: 'text', text }
    const usage = meter.subagent(text)
    emit(dialect.task('task_started', nested, { task_type: 'local_agent', prompt: text }))
    emit(dialect.assistant(message, block, { ...usage, output_tokens: 1 }, nested))
    emit(dialect.task('task_notification', nested, { status: 'completed', summary: text }))
    transcript.subagent(nested.agentId, nested.description, message, block, usage)
    transcript.cost(meter.total())
    this.#speech.hear(used.id, text, false, { status: 'completed', agentId: nested.agentId })
    return undefined
  }

  async #spam(count: number): Promise<void> {
    for (let line = 1; line <= count && !this.#stage.signal.aborted; line += 1) {
      this.#stage.blurt(`line ${line} of ${count}`)
      if (line % SPAM_AT_ONCE === 0) await this.#stage.sleep(0)
    }
  }

  async #hang(isDeaf: boolean): Promise<void> {
    if (isDeaf) this.#stage.deafen()
    while (!this.#stage.signal.aborted) await this.#stage.sleep(FOREVER_MS)
  }

  // ---- endings ---------------------------------------------------------------------------------------------------

  /** The last message is one without a tool. */
  #closing(steps: number): Ended {
    if (this.#speech.open() === undefined) {
      const tooMany = this.#say(steps === 1 ? 'The one step is done.' : `All ${steps} steps are done.`)
      if (tooMany !== undefined) return tooMany
    }
    this.#speech.close()
    return {
      subtype: 'success',
      reason: 'completed',
      isError: false,
      text: this.#lastWords,
      stopReason: 'end_turn',
    }
  }

  #interrupted(): Ended | undefined {
    const { signal, dialect, emit, hex } = this.#stage
    if (!signal.aborted) return undefined
    const message = this.#speech.open()?.message ?? { id: `msg_${hex(24)}`, requestId: '', model: MODEL }
    emit(dialect.aborted(message, this.#lastWords, this.#speech.open()?.usage ?? NO_USAGE))
    emit(dialect.interruption())
    this.#speech.close()
    return {
      subtype: 'error_during_execution',
      reason: 'aborted_streaming',
      isError: true,
      text: 'interrupted',
      stopReason: null,
    }
  }

  #limit(minutes: number): Ended {
    const { dialect, emit, now } = this.#stage
    const resetsAt = Math.ceil(now() / 1000 + minutes * 60)
    const time = new Date(resetsAt * 1000).toISOString().slice(11, 16)
    const text = `You've hit your 5-hour limit · resets ${time} (UTC)`
    const apiError = {
      api_error_status: 429,
      api_error: 'usage_limit_reached',
      api_error_type: 'rate_limit_error',
    }
    const params = { api_error_params: { rate_limit_info: rateLimitInfo(resetsAt) } }
    emit(dialect.rateLimit(resetsAt))
    emit(dialect.synthetic(text, 'rate_limit', { ...apiError, ...params }))
    const stopReason = 'stop_sequence'
    return { subtype: 'success', reason: 'api_error', isError: true, text, stopReason, apiError }
  }

  #finish(ending: Ending): Finale {
    if ('crash' in ending)
      return { is: 'crash', ...(ending.crash === undefined ? {} : { code: ending.crash }) }
    const { meter, dialect, emit } = this.#stage
    const isCutOff = ending.reason === 'aborted_streaming' || ending.reason === 'budget_exhausted'
    emit(
      dialect.result(ending, {
        turns: Math.max(1, this.#speech.turns()),
        startedAt: this.#startedAt,
        subagents: this.#subagents,
        usage: isCutOff ? NO_USAGE : meter.main(),
        since: meter.since(),
        total: meter.total(),
        totalUsd: meter.totalUsd(),
      }),
    )
    const isAborted = ending.reason === 'aborted_streaming'
    return { is: 'ended', isError: ending.isError, isAborted, text: ending.text }
  }
}

/** Steps that may go wrong without the script going wrong. */
const FORGIVEN: readonly Deed['does'][] = ['try', 'remember', 'artifact', 'ask-network']

function failure(text: string): Ended {
  return { subtype: 'error_during_execution', reason: 'model_error', isError: true, text, stopReason: null }
}
