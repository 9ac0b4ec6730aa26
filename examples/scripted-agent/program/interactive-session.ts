/**
 * The scripted agent's interactive mode: shows the session, answers lines, and runs single script steps.
 *
 * Ctrl-C interrupts a running step or discards the typed line; on an empty line it prints how to exit. Everything is
 * recorded in the session's transcript and counted as usage.
 */
import { createInterface, type Interface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { parseScript, VERBS } from './script.ts'
import { type ToolEnvironment, type ToolStep, useTool } from './tools.ts'
import type { SessionHistory } from './transcript.ts'

export interface InteractiveOptions {
  readonly input: Readable
  readonly output: Writable
  readonly isTerminal: boolean
  readonly environment: ToolEnvironment
  readonly sessionId: string
  readonly history: SessionHistory
  /** Records a typed line and its answer in the transcript. */
  readonly recordExchange: (typed: string, answered: string) => void
  /** Starts another session and returns its id. */
  readonly startNewSession: () => string
}

const HELP = [
  `lines that begin with one of these are run as a step: ${VERBS.join(', ')}`,
  'end a line with <<END to add a text, up to a line END',
  'flood BYTES prints that many bytes as fast as possible',
  '/clear starts another session',
  '/help shows this text, /exit leaves, exit CODE leaves with that exit code',
].join('\n')

const TOOLS: readonly string[] = [
  'write',
  'append',
  'edit',
  'delete',
  'run',
  'try',
  'commit',
  'remember',
  'artifact',
  'ask-network',
]

/** Resolves with an exit code when the person leaves. */
export async function runInteractiveSession(options: InteractiveOptions): Promise<number> {
  const { input, output, isTerminal } = options
  const lines = createInterface({ input, output, terminal: isTerminal, prompt: '> ' })
  const current = { step: undefined as AbortController | undefined }
  let { sessionId } = options
  let code = 0
  printGreeting(options)
  lines.on('SIGINT', () => interrupt(lines, output, current.step))
  lines.prompt()
  for await (const line of readStatements(lines)) {
    const leaving = LEAVE_COMMAND.exec(line)
    if (leaving !== null) {
      code = Number(leaving[1] ?? 0) & EXIT_CODE_BITS
      break
    }
    if (line.trim() === '/clear') {
      sessionId = options.startNewSession()
      output.write(`another session: ${sessionId}\n`)
      lines.prompt()
      continue
    }
    current.step = new AbortController()
    const answer = await answerStatement(line, options, current.step.signal)
    current.step = undefined
    if (answer !== '') {
      // Record before printing, so that everything a person has seen is in the transcript.
      options.recordExchange(line, answer)
      output.write(`${answer}\n`)
    }
    lines.prompt()
  }
  lines.close()
  output.write(`Resume this session with: scripted-agent --resume ${sessionId}\n`)
  return code
}

const LEAVE_COMMAND = /^\s*(?:\/exit|exit(?:\s+(\d{1,3}))?)\s*$/
const EXIT_CODE_BITS = 0xff

function printGreeting({ output, sessionId, history, environment }: InteractiveOptions): void {
  output.write(`scripted agent · session ${sessionId} · ${environment.cwd}\n`)
  if (history.messages > 0) output.write(`${history.messages} messages so far; the last words were:\n`)
  for (const text of history.lastTexts) output.write(`  ${text.split('\n').join('\n  ')}\n`)
  output.write('There is no model behind this agent: /help lists its commands, /exit leaves.\n')
}

function interrupt(lines: Interface, output: Writable, step: AbortController | undefined): void {
  step?.abort()
  if (step !== undefined) return
  output.write(lines.line === '' ? '\n/exit leaves\n' : '\n')
  lines.write(null, { ctrl: true, name: 'u' })
  lines.prompt()
}

/** Yields typed lines; a line that ends with <<WORD is joined with its body. */
async function* readStatements(lines: Interface): AsyncGenerator<string> {
  let kept: string[] = []
  for await (const line of lines) {
    kept.push(line)
    const word = /<<([A-Za-z_]\w*)$/.exec(kept[0] ?? '')?.[1]
    if (word !== undefined && (kept.length === 1 || line.trimEnd() !== word)) continue
    yield kept.join('\n')
    kept = []
  }
}

const FLOOD_COMMAND = /^\s*flood\s+(\d{1,10})\s*$/

async function answerStatement(
  text: string,
  { environment, output }: InteractiveOptions,
  signal: AbortSignal,
): Promise<string> {
  if (text.trim() === '') return ''
  if (text.trim() === '/help') return HELP
  const bytes = FLOOD_COMMAND.exec(text)?.[1]
  if (bytes !== undefined) return `${await writeFlood(output, Number(bytes), signal)} bytes`
  const [verb = ''] = text.split(/\s/, 1)
  if (!VERBS.includes(verb)) return `You said: ${text}\nI can only run steps; /help lists them.`
  const parsed = parseScript(text.split('\n'))
  if (parsed.is === 'bad') return parsed.error
  const step = parsed.is === 'script' ? parsed.steps[0] : undefined
  if (step?.does === 'say' || step?.does === 'subagent') return step.text
  if (step === undefined || !TOOLS.includes(step.does)) return `${verb} is for scripts only`
  const { text: result, isError } = await useTool(step as ToolStep, environment, signal)
  return isError ? `it went wrong: ${result}` : result || 'done'
}

const LINE_BYTES = 64
const LINES_AT_ONCE = 1_024
const PAD = '.'.repeat(LINE_BYTES)

/**
 * Writes large amounts of output as numbered lines, to test how floods are handled; a gap in the numbers is visible.
 *
 * Returns the number of bytes written: whole lines, and fewer of them when `signal` aborts.
 */
async function writeFlood(output: Writable, bytes: number, signal: AbortSignal): Promise<number> {
  const lines = Math.floor(bytes / LINE_BYTES)
  let done = 0
  while (done < lines && !signal.aborted) {
    const until = Math.min(lines, done + LINES_AT_ONCE)
    let text = ''
    for (; done < until; done += 1) text += numberedLine(done)
    await writeAndYield(output, text)
  }
  return done * LINE_BYTES
}

/** A terminal converts the LF to CRLF, which makes the line one byte longer. */
function numberedLine(number: number): string {
  return `${`${number} ${PAD}`.slice(0, LINE_BYTES - 1)}\n`
}

/** Terminal writes are synchronous, so this yields between two pieces to let the process handle keys. */
function writeAndYield(output: Writable, text: string): Promise<void> {
  return new Promise((resolve) => output.write(text, () => setImmediate(resolve)))
}
