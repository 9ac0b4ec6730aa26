/**
 * The scripted agent's messages.
 *
 * What is said and the tool's use that follows are one message, as with a model: it is begun with the first words,
 * counted and written to the transcript when it is whole, and then its tool is used. Turns and budget are judged where
 * agentA judges them: turns before the next message, the budget before a tool is used.
 */
import type { Block, Ended, Line, Message } from './stream-lines.ts'
import { MODEL, type Usage } from './usage-meter.ts'
import type { Stage } from './runner-context.ts'

export interface OpenMessage {
  readonly message: Message
  readonly usage: Usage
  readonly blocks: Block[]
}

export class Speech {
  readonly #stage: Stage
  #open: OpenMessage | undefined
  /** What the next message answers. */
  #heard: string
  #turns = 0

  constructor(stage: Stage, prompt: string) {
    this.#stage = stage
    this.#heard = prompt
  }

  /** The message that is not whole yet. */
  open(): OpenMessage | undefined {
    return this.#open
  }

  turns(): number {
    return this.#turns
  }

  say(text: string): Ended | undefined {
    const tooMany = this.#begin()
    if (tooMany === undefined) this.#speak({ type: 'text', text })
    return tooMany
  }

  /** Ends the message; the tool is the caller's to use. */
  call(name: string, input: object): { readonly id: string } | { readonly stopped: Ended } {
    const tooMany = this.#begin()
    if (tooMany !== undefined) return { stopped: tooMany }
    const id = `toolu_${this.#stage.hex(24)}`
    this.#speak({ type: 'tool_use', id, name, input })
    this.close()
    const spent = this.#spentTooMuch()
    return spent === undefined ? { id } : { stopped: spent }
  }

  hear(id: string, text: string, isError: boolean, structured: Line): void {
    const { dialect, transcript, emit } = this.#stage
    emit(dialect.toolResult(id, text, isError, structured))
    transcript.toolResult(id, text, isError)
    this.#heard = text
  }

  /** The message is whole. */
  close(): void {
    if (this.#open === undefined) return
    const { message, usage, blocks } = this.#open
    const { meter, transcript } = this.#stage
    this.#open = undefined
    const final = meter.end(usage, JSON.stringify(blocks))
    transcript.message(message, blocks, final, meter.total())
  }

  /** A message is there afterwards, or an ending is answered. */
  #begin(): Ended | undefined {
    if (this.#open !== undefined) return undefined
    const { maxTurns, meter, hex } = this.#stage
    this.#turns += 1
    if (maxTurns !== undefined && this.#turns > maxTurns) {
      return cutOff('error_max_turns', 'max_turns', `Reached maximum number of turns (${maxTurns})`)
    }
    const message = { id: `msg_${hex(24)}`, requestId: `req_${hex(24)}`, model: MODEL }
    this.#open = { message, usage: meter.begin(this.#heard), blocks: [] }
    this.#heard = ''
    return undefined
  }

  #speak(block: Block): void {
    if (this.#open === undefined) throw new Error('no message is begun')
    this.#open.blocks.push(block)
    this.#stage.emit(this.#stage.dialect.assistant(this.#open.message, block, this.#open.usage))
  }

  #spentTooMuch(): Ended | undefined {
    const { maxCostUsd, meter } = this.#stage
    if (maxCostUsd === undefined || meter.sinceUsd() < maxCostUsd) return undefined
    return cutOff('error_max_budget_usd', 'budget_exhausted', `Reached maximum budget ($${maxCostUsd})`)
  }
}

function cutOff(
  subtype: 'error_max_turns' | 'error_max_budget_usd',
  reason: 'max_turns' | 'budget_exhausted',
  text: string,
): Ended {
  return { subtype, reason, isError: true, text, stopReason: 'tool_use' }
}
