/**
 * Runs a parsed script and writes each step in agentA's output format, up to the final result.
 *
 * Interruptions are checked between steps; long steps end early when the signal aborts.
 */
import { SCRIPTED_MODEL, SMALL_SCRIPTED_MODEL } from '../../../core/run/cost.ts'
import type { RunnerContext } from './runner-context.ts'
import type { ScriptStep } from './script.ts'
import {
  type ContentBlock,
  type ExecutionEnd,
  type MessageHeader,
  type StreamLine,
  type SubagentTask,
  toRateLimitInfo,
} from './stream-lines.ts'
import { describeToolUse, type ToolStep, useTool } from './tools.ts'
import { NO_USAGE, type Usage } from './usage-meter.ts'

export type RunnerResult =
  | { readonly is: 'ended'; readonly isError: boolean; readonly isAborted: boolean; readonly text: string }
  | { readonly is: 'crash'; readonly code?: number }

type ScriptEnding = ExecutionEnd | { readonly crash: number | undefined }

/** Lines printed before the event loop may handle other events. */
const SPAM_LINES_PER_TURN = 500
const FOREVER_MS = 2 ** 31 - 1
const ERROR_LINES_MAX = 6

export class ScriptRunner {
  readonly #context: RunnerContext
  readonly #startedAt: number
  readonly #messages: MessageWriter
  #subagents = 0
  #lastText = ''

  constructor(context: RunnerContext, prompt: string) {
    this.#context = context
    this.#startedAt = context.now()
    this.#messages = new MessageWriter(context, prompt)
  }

  /** @param stepsDone the first steps, which this session has done already */
  async run(steps: readonly ScriptStep[], stepsDone = 0): Promise<RunnerResult> {
    for (const [number, step] of steps.entries()) {
      if (number < stepsDone) continue
      const ending = this.#findInterruption() ?? (await this.#runStep(step)) ?? this.#findInterruption()
      if (ending !== undefined) return this.#finish(ending)
      this.#context.transcript.addStepsDone(number + 1)
    }
    return this.#finish(this.#closeWithSuccess(steps.length))
  }

  /** Ends with a failure before the first step. */
  fail(text: string): RunnerResult {
    return this.#finish(failure(text))
  }

  // ---- steps -----------------------------------------------------------------------------------------------------

  async #runStep(step: ScriptStep): Promise<ScriptEnding | undefined> {
    switch (step.does) {
      case 'say':
        return this.#writeText(step.text)
      case 'subagent':
        return this.#runSubagent(step.text)
      case 'wait':
      case 'hang':
      case 'spam':
        return this.#runSilently(step)
      case 'crash':
      case 'fail':
      case 'limit':
        return this.#endWith(step)
      default:
        return this.#useTool(step)
    }
  }

  /** Runs a step that writes no messages. */
  async #runSilently(step: Extract<ScriptStep, { does: 'wait' | 'hang' | 'spam' }>): Promise<undefined> {
    this.#messages.close()
    if (step.does === 'wait') await this.#context.sleep(step.seconds * 1000)
    else if (step.does === 'spam') await this.#spam(step.count)
    else await this.#hang(step.ignoresSignals)
  }

  #endWith(step: Extract<ScriptStep, { does: 'crash' | 'fail' | 'limit' }>): ScriptEnding {
    this.#messages.close()
    if (step.does === 'crash') return { crash: step.code }
    return step.does === 'fail' ? failure(step.text) : this.#reachLimit(step.minutes)
  }

  #writeText(text: string): ExecutionEnd | undefined {
    const tooMany = this.#messages.writeText(text)
    if (tooMany === undefined) this.#lastText = text
    return tooMany
  }

  async #useTool(step: ToolStep): Promise<ScriptEnding | undefined> {
    const { name, input } = describeToolUse(step, this.#context.environment)
    const call = this.#messages.callTool(name, input)
    if ('stopped' in call) return call.stopped
    const { text, isError } = await useTool(step, this.#context.environment, this.#context.signal)
    if (this.#context.signal.aborted) return undefined
    this.#messages.writeToolResult(call.id, text, isError, {
      stdout: text,
      stderr: '',
      interrupted: false,
      isImage: false,
    })
    const isFatal = isError && !TOLERATED_STEPS.includes(step.does)
    return isFatal
      ? failure(`step ${step.does} in line ${step.line} went wrong: ${inShort(text)}`)
      : undefined
  }

  #runSubagent(text: string): ScriptEnding | undefined {
    const { lines, transcript, meter, emit, randomHex } = this.#context
    const call = this.#messages.callTool('Agent', {
      description: 'second model',
      prompt: text,
      run_in_background: false,
    })
    if ('stopped' in call) return call.stopped
    this.#subagents += 1
    const subagent: SubagentTask = {
      toolUseId: call.id,
      agentId: `a${randomHex(16)}`,
      description: 'second model',
    }
    const message = {
      id: `msg_${randomHex(24)}`,
      requestId: `req_${randomHex(24)}`,
      model: SMALL_SCRIPTED_MODEL,
    }
    const block = { type: 'text', text }
    const usage = meter.countSubagent(text)
    emit(lines.task('task_started', subagent, { task_type: 'local_agent', prompt: text }))
    emit(lines.assistant(message, block, { ...usage, output_tokens: 1 }, subagent))
    emit(lines.task('task_notification', subagent, { status: 'completed', summary: text }))
    transcript.addSubagent(subagent.agentId, subagent.description, message, block, usage)
    transcript.addCost(meter.sessionUsage())
    this.#messages.writeToolResult(call.id, text, false, { status: 'completed', agentId: subagent.agentId })
    return undefined
  }

  async #spam(count: number): Promise<void> {
    for (let number = 1; number <= count && !this.#context.signal.aborted; number += 1) {
      this.#context.printRaw(`line ${number} of ${count}`)
      if (number % SPAM_LINES_PER_TURN === 0) await this.#context.sleep(0)
    }
  }

  async #hang(ignoresSignals: boolean): Promise<void> {
    if (ignoresSignals) this.#context.ignoreSignals()
    while (!this.#context.signal.aborted) await this.#context.sleep(FOREVER_MS)
  }

  // ---- endings ---------------------------------------------------------------------------------------------------

  /** The last message of a successful run is a text without a tool call. */
  #closeWithSuccess(steps: number): ExecutionEnd {
    if (this.#messages.openMessage() === undefined) {
      const tooMany = this.#writeText(steps === 1 ? 'The one step is done.' : `All ${steps} steps are done.`)
      if (tooMany !== undefined) return tooMany
    }
    this.#messages.close()
    return {
      subtype: 'success',
      reason: 'completed',
      isError: false,
      text: this.#lastText,
      stopReason: 'end_turn',
    }
  }

  #findInterruption(): ExecutionEnd | undefined {
    const { signal, lines, emit, randomHex } = this.#context
    if (!signal.aborted) return undefined
    const message = this.#messages.openMessage()?.message ?? {
      id: `msg_${randomHex(24)}`,
      requestId: '',
      model: SCRIPTED_MODEL,
    }
    emit(lines.aborted(message, this.#lastText, this.#messages.openMessage()?.usage ?? NO_USAGE))
    emit(lines.interruption())
    this.#messages.close()
    return {
      subtype: 'error_during_execution',
      reason: 'aborted_streaming',
      isError: true,
      text: 'interrupted',
      stopReason: null,
    }
  }

  #reachLimit(minutes: number): ExecutionEnd {
    const { lines, emit, now } = this.#context
    const resetsAt = Math.ceil(now() / 1000 + minutes * 60)
    const time = new Date(resetsAt * 1000).toISOString().slice(11, 16)
    const text = `You've hit your 5-hour limit · resets ${time} (UTC)`
    const apiError = {
      api_error_status: 429,
      api_error: 'usage_limit_reached',
      api_error_type: 'rate_limit_error',
    }
    const params = { api_error_params: { rate_limit_info: toRateLimitInfo(resetsAt) } }
    emit(lines.rateLimit(resetsAt))
    emit(lines.synthetic(text, 'rate_limit', { ...apiError, ...params }))
    const stopReason = 'stop_sequence'
    return { subtype: 'success', reason: 'api_error', isError: true, text, stopReason, apiError }
  }

  #finish(ending: ScriptEnding): RunnerResult {
    if ('crash' in ending)
      return { is: 'crash', ...(ending.crash === undefined ? {} : { code: ending.crash }) }
    const { meter, lines, emit } = this.#context
    const isPartial = ending.reason === 'aborted_streaming' || ending.reason === 'budget_exhausted'
    emit(
      lines.result(ending, {
        turns: Math.max(1, this.#messages.turns()),
        startedAt: this.#startedAt,
        subagents: this.#subagents,
        usage: isPartial ? NO_USAGE : meter.mainLoopUsage(),
        since: meter.executionUsage(),
        total: meter.sessionUsage(),
        totalUsd: meter.sessionUsd(),
      }),
    )
    const isAborted = ending.reason === 'aborted_streaming'
    return { is: 'ended', isError: ending.isError, isAborted, text: ending.text }
  }
}

/** Steps that may fail without failing the script. */
const TOLERATED_STEPS: readonly ScriptStep['does'][] = ['try', 'remember', 'artifact', 'ask-network']

/** An error stands in lists, in one line; the log has the whole output of the tool. */
function inShort(output: string): string {
  const lines = output.split('\n')
  if (lines.length <= ERROR_LINES_MAX) return output
  return `${lines.at(-1)} behind ${lines.length - 1} lines of output, which are in the log`
}

function failure(text: string): ExecutionEnd {
  return { subtype: 'error_during_execution', reason: 'model_error', isError: true, text, stopReason: null }
}

interface OpenMessage {
  readonly message: MessageHeader
  readonly usage: Usage
  readonly blocks: ContentBlock[]
}

/**
 * Writes the scripted agent's messages to the output stream and the transcript.
 *
 * As with a model, a text and the tool call after it form one message: it opens with the first text, is counted and
 * written to the transcript when it is complete, and then its tool runs. Limits are checked where agentA checks them:
 * turns before the next message, the budget before a tool runs.
 */
class MessageWriter {
  readonly #context: RunnerContext
  #open: OpenMessage | undefined
  /** The text that the next message answers. */
  #answered: string
  #turns = 0

  constructor(context: RunnerContext, prompt: string) {
    this.#context = context
    this.#answered = prompt
  }

  /** Returns the message that is still open, if any. */
  openMessage(): OpenMessage | undefined {
    return this.#open
  }

  turns(): number {
    return this.#turns
  }

  writeText(text: string): ExecutionEnd | undefined {
    const end = this.#ensureMessage()
    if (end === undefined) this.#writeBlock({ type: 'text', text })
    return end
  }

  /** Writes the tool call and closes the message; the caller then runs the tool. */
  callTool(name: string, input: object): { readonly id: string } | { readonly stopped: ExecutionEnd } {
    const end = this.#ensureMessage()
    if (end !== undefined) return { stopped: end }
    const id = `toolu_${this.#context.randomHex(24)}`
    this.#writeBlock({ type: 'tool_use', id, name, input })
    this.close()
    const budgetEnd = this.#checkBudget()
    return budgetEnd === undefined ? { id } : { stopped: budgetEnd }
  }

  writeToolResult(id: string, text: string, isError: boolean, structured: StreamLine): void {
    const { lines, transcript, emit } = this.#context
    emit(lines.toolResult(id, text, isError, structured))
    transcript.addToolResult(id, text, isError)
    this.#answered = text
  }

  /** Completes the open message. */
  close(): void {
    if (this.#open === undefined) return
    const { message, usage, blocks } = this.#open
    const { meter, transcript } = this.#context
    this.#open = undefined
    const final = meter.endMessage(usage, JSON.stringify(blocks))
    transcript.addMessage(message, blocks, final, meter.sessionUsage())
  }

  /** Opens a message if none is open. Returns an end instead when the turns are used up. */
  #ensureMessage(): ExecutionEnd | undefined {
    if (this.#open !== undefined) return undefined
    const { maxTurns, meter, randomHex } = this.#context
    this.#turns += 1
    if (maxTurns !== undefined && this.#turns > maxTurns) {
      return limitEnd('error_max_turns', 'max_turns', `Reached maximum number of turns (${maxTurns})`)
    }
    const message = { id: `msg_${randomHex(24)}`, requestId: `req_${randomHex(24)}`, model: SCRIPTED_MODEL }
    this.#open = { message, usage: meter.beginMessage(this.#answered), blocks: [] }
    this.#answered = ''
    return undefined
  }

  #writeBlock(block: ContentBlock): void {
    if (this.#open === undefined) throw new Error('no message is open')
    this.#open.blocks.push(block)
    this.#context.emit(this.#context.lines.assistant(this.#open.message, block, this.#open.usage))
  }

  #checkBudget(): ExecutionEnd | undefined {
    const { maxCostUsd, meter } = this.#context
    if (maxCostUsd === undefined || meter.executionUsd() < maxCostUsd) return undefined
    return limitEnd('error_max_budget_usd', 'budget_exhausted', `Reached maximum budget ($${maxCostUsd})`)
  }
}

function limitEnd(
  subtype: 'error_max_turns' | 'error_max_budget_usd',
  reason: 'max_turns' | 'budget_exhausted',
  text: string,
): ExecutionEnd {
  return { subtype, reason, isError: true, text, stopReason: 'tool_use' }
}
