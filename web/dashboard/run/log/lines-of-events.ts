/**
 * Turns the events of a run into lines. A tool's outcome comes in a later event, and belongs to the line of its call.
 */

import { readAgentMessage } from '../../../../client/agent-messages.ts'
import type { IndexRange } from '../../../../client/run-log.ts'
import { formatMoney } from '../../../../protocol/format.ts'
import { formatBytes } from '../../../../protocol/format-bytes.ts'
import type { RunEvent } from '../../../../protocol/run.ts'
import { countOf } from '../../../text/amounts.ts'
import { capitalized } from '../../../text/sentences.ts'
import { cleanLine, plainText, splitLines } from './clean-text.ts'
import type { LineKind, NewLine } from './log-lines.ts'
import {
  changesOfCall,
  isErrorLine,
  isErrorOfTool,
  type ToolOutcome,
  wordsOfCall,
  wordsOfOutcome,
} from './tool-words.ts'

/** The parts of a tool's line stand in its text with a character between them that no cleaned line contains. */
export const TOOL_SEPARATOR = '\u0001'

const END_WORDS = ['Completed', 'Failed', 'Cancelled']

/** Whether the line of a phase is the end of the run, which has no length. */
export const isEnd = (text: string): boolean => END_WORDS.some((word) => text.startsWith(word))

/** Outcomes by the id of their call. */
export type Outcomes = Map<string, ToolOutcome>

export class EventReader {
  /** By the event and part of the call's line: `12.0`. */
  readonly outcomes: Outcomes = new Map()
  readonly #calls = new Map<string, { readonly key: string; readonly verb: string }>()
  /** Outcomes whose calls are older than what was read. */
  readonly #early = new Map<string, EarlyOutcome>()

  clear(): void {
    this.outcomes.clear()
    this.#calls.clear()
    this.#early.clear()
  }

  /** @param range an index in it that no event has is one that the host has lost */
  lines(events: readonly RunEvent[], range: IndexRange): NewLine[] {
    const lines: NewLine[] = []
    let next = range.from
    for (const event of events) {
      if (event.index > next) lines.push(lostLine(next, event.index, event.at))
      next = event.index + 1
      for (const line of this.#linesOf(event)) addLine(lines, line)
    }
    const last = events.at(-1)
    if (range.to > next) lines.push(lostLine(next, range.to, last?.at))
    return lines
  }

  #linesOf(event: RunEvent): NewLine[] {
    switch (event.type) {
      case 'log':
        return logLines(event)
      case 'agent':
        return this.#agentLines(event)
      case 'status': {
        const where = event.worker === undefined ? '' : ` on ${event.worker}`
        const reason = event.reason === undefined ? '' : `${TOOL_SEPARATOR}${event.reason}`
        return [line(event, 'phase', `${capitalized(event.to)}${where}${reason}`, event.to === 'failed')]
      }
      case 'artifact':
        return [line(event, 'system', `Artifact ${event.name}, ${formatBytes(event.size)}`)]
      case 'cost':
        return [line(event, 'system', `Cost of ${event.entry.label}: ${formatMoney(event.entry)}`)]
      case 'limit':
        return [line(event, 'system', `Usage limit: ${event.message}`, true)]
      case 'gap':
        return [line(event, 'gap', gapWords(event.from, event.to))]
    }
  }

  #agentLines(event: Extract<RunEvent, { type: 'agent' }>): NewLine[] {
    const lines: NewLine[] = []
    const add = (kind: LineKind, text: string, isError = false, continues = false): void => {
      lines.push({ ...line(event, kind, text, isError), part: lines.length, continues })
    }
    for (const part of readAgentMessage(event.message)) {
      if (part.is === 'words')
        add('words', part.text.split('\n').map(cleanLine).join('\n'), false, part.continues)
      else if (part.is === 'error') add('words', cleanLine(part.text), true)
      else if (part.is === 'outcome') {
        const verb = this.#calls.get(part.id)?.verb
        this.#addOutcome(part.id, { text: part.text, isError: part.isError, event: event.index })
        for (const output of outputLines(verb, part)) add('tool-output', output.text, output.isError)
      } else {
        const { verb, object } = wordsOfCall(part)
        const changes = changesOfCall(part)
        const parts = [
          verb,
          object,
          ...(changes === undefined ? [] : [`+${changes.added}`, `−${changes.removed}`]),
        ]
        if (part.id !== undefined) {
          this.#calls.set(part.id, { key: `${event.index}.${lines.length}`, verb })
          const early = this.#early.get(part.id)
          if (early !== undefined) this.#addOutcome(part.id, early)
        }
        add('tool', parts.map((each) => plainText(cleanLine(each))).join(TOOL_SEPARATOR))
      }
    }
    return lines
  }

  #addOutcome(id: string, outcome: EarlyOutcome): void {
    const call = this.#calls.get(id)
    if (call === undefined) {
      this.#early.set(id, outcome)
      return
    }
    this.#calls.delete(id)
    this.#early.delete(id)
    const words = wordsOfOutcome(call.verb, outcome)
    const isWhole = outcome.text.trim() === words.text
    this.outcomes.set(call.key, { ...words, ...(isWhole ? {} : { output: outcome.event }) })
  }
}

interface EarlyOutcome {
  readonly text: string
  readonly isError: boolean
  readonly event: number
}

/** The lines of a tool's output. A file that was read may hold words of errors, so only programs and failures have some. */
function outputLines(verb: string | undefined, { text, isError }: Pick<EarlyOutcome, 'text' | 'isError'>) {
  if (text.trim() === '') return []
  const isErrorIn = isError ? isErrorOfTool : (line: string) => isErrorLine('stdout', line)
  const lines = splitLines(text.trimEnd()).map((line) => ({
    text: line,
    isError: (isError || verb === 'Run') && isErrorIn(plainText(line)),
  }))
  const [first] = lines
  if (isError && first !== undefined && !lines.some((line) => line.isError)) first.isError = true
  return lines
}

/** Pieces of a text that arrive right after one another are one line. */
function addLine(lines: NewLine[], line: NewLine): void {
  const last = lines.at(-1)
  if (last?.continues === true && line.continues === true)
    lines[lines.length - 1] = { ...last, text: last.text + line.text }
  else lines.push(line)
}

function logLines(event: Extract<RunEvent, { type: 'log' }>): NewLine[] {
  const kind = event.stream === 'stdout' ? 'output' : event.stream === 'stderr' ? 'error-output' : 'system'
  return splitLines(event.text).map((text, part) => ({
    ...line(event, kind, text, event.stream !== 'system' && isErrorLine(event.stream, plainText(text))),
    part,
  }))
}

const line = (
  event: Pick<RunEvent, 'index' | 'at'>,
  kind: LineKind,
  text: string,
  isError = false,
): NewLine => ({
  kind,
  text,
  event: event.index,
  part: 0,
  at: Date.parse(event.at),
  isError,
})

const gapWords = (from: number, to: number): string =>
  `${countOf(to - from + 1, 'report')} of the worker ${to === from ? 'is' : 'are'} missing (#${from.toLocaleString('en-US')} to #${to.toLocaleString('en-US')}). Its buffer was full while it was offline. State and costs are complete.`

/** @param to the first index that is there again */
const lostLine = (from: number, to: number, at: string | undefined): NewLine =>
  line(
    { index: from, at: at ?? '' },
    'gap',
    `${countOf(to - from, 'event')} ${to - from === 1 ? 'is' : 'are'} missing (#${(from + 1).toLocaleString('en-US')} to #${to.toLocaleString('en-US')}). The host could not read them from its disk.`,
  )
