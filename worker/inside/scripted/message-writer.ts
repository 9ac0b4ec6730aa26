/**
 * Writes the scripted agent's messages to the output stream and the transcript.
 *
 * As with a model, a text and the tool call after it form one message: it opens with the first text, is counted and
 * written to the transcript when it is complete, and then its tool runs. Limits are checked where agentA checks them:
 * turns before the next message, the budget before a tool runs.
 */

import { SCRIPTED_MODEL } from '../../../core/run/cost-source.ts'
import type { RunnerContext } from './runner-context.ts'
import type { ContentBlock, ExecutionEnd, MessageHeader, StreamLine } from './stream-lines.ts'
import type { Usage } from './usage-meter.ts'

export interface OpenMessage {
  readonly message: MessageHeader
  readonly usage: Usage
  readonly blocks: ContentBlock[]
}

export class MessageWriter {
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
