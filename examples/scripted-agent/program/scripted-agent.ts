/**
 * The scripted agent replaces agentA without a model: it runs the `switchyard` block of its prompt line by line.
 *
 * The program accepts agentA's command line and writes agentA's output format; `script.ts` describes the
 * script language. The program runs inside the sandbox, so that everything around an agent can be tested without an
 * account, a network or costs. The reported costs are invented and marked as such.
 */

import { randomBytes, randomUUID } from 'node:crypto'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { SCRIPTED_MODEL } from '../../../core/run/cost.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { ARTIFACTS_INSIDE, MEMORIES_INSIDE } from '../../../worker/sandbox/inside-paths.ts'
import { runInteractiveSession } from './interactive-session.ts'
import type { RunnerContext } from './runner-context.ts'
import { parsePrompt, type ScriptStep } from './script.ts'
import { type RunnerResult, ScriptRunner } from './script-runner.ts'
import { type StreamLine, StreamLines } from './stream-lines.ts'
import type { ToolEnvironment } from './tools.ts'
import { isContinuation, Transcript, type TranscriptOptions } from './transcript.ts'
import { NO_USAGE, UsageMeter } from './usage-meter.ts'

const PROMPT_BYTES_MAX = 8 * 1024 * 1024
const [FAILED, TERMINATED] = [1, 143]
const USAGE_HELP = [
  'This is the scripted agent: it runs a script block of the ticket, and this ticket has none. Add one such as:',
  '```switchyard',
  'write hello.txt',
  '  Hello!',
  'commit Say hello',
  '```',
].join('\n')

const { env, stdin, stdout, stderr } = process
const environment: ToolEnvironment = {
  cwd: process.cwd(),
  artifacts: env.SWITCHYARD_ARTIFACTS ?? ARTIFACTS_INSIDE,
  memories: env.SWITCHYARD_MEMORIES ?? MEMORIES_INSIDE,
  env,
}

async function main(): Promise<void> {
  // The reader of the output is gone, so the work has no purpose any more.
  stdout.on('error', () => process.exit(FAILED))
  const read = parseOptions(process.argv.slice(2))
  if (!read.ok) return failWith(read.error)
  const { options } = read
  const sessionId = options.resume ?? options.sessionId ?? randomUUID()
  const transcript = transcriptFor(options, sessionId)
  if (transcript === undefined && options.resume === undefined)
    return failWith(`Error: Session ID ${sessionId} is already in use.`)
  if (transcript === undefined) return reportUnknownSession(options, sessionId)
  return options.print ? runHeadless(options, sessionId, transcript) : runInteractive(sessionId, transcript)
}

function transcriptFor({ resume, print }: ScriptedOptions, sessionId: string): Transcript | undefined {
  const parts = transcriptParts(sessionId, !print)
  return resume === undefined ? Transcript.begin(parts) : Transcript.resume(parts)
}

function transcriptParts(sessionId: string, isAtTerminal: boolean): TranscriptOptions {
  const folder = env.CLAUDE_CONFIG_DIR ?? join(env.HOME ?? homedir(), '.claude')
  return { folder, cwd: environment.cwd, sessionId, isAtTerminal, uuid: randomUUID, now: Date.now }
}

// ---- headless ----------------------------------------------------------------------------------------------------

async function runHeadless(
  options: ScriptedOptions,
  sessionId: string,
  transcript: Transcript,
): Promise<void> {
  const prompt = options.prompt ?? (await readStandardInput())
  if (prompt === undefined || prompt.trim() === '')
    return failWith(
      'Error: Input must be provided either through stdin or as a prompt argument when using --print',
    )
  const context = createContext(options, sessionId, transcript)
  context.emit(context.lines.init())
  transcript.addPrompt(prompt)
  const result = await runPrompt(context, prompt)
  if (result.is === 'crash') return crash(result.code)
  if (options.format === 'text') stdout.write(`${result.text}\n`)
  exitAfterOutput(result.isError && !result.isAborted ? FAILED : 0)
}

async function runPrompt(context: RunnerContext, prompt: string): Promise<RunnerResult> {
  const runner = new ScriptRunner(context, prompt)
  const script = parsePrompt(prompt)
  if (script.is === 'none') return runner.fail(USAGE_HELP)
  if (script.is === 'bad') return runner.fail(`line ${script.line} of the switchyard block: ${script.error}`)
  return runner.run(script.steps, stepsDoneBefore(context.transcript, prompt, script.steps))
}

/** A session that was interrupted goes on in its script, unless the script has changed meanwhile. */
function stepsDoneBefore({ history }: Transcript, prompt: string, steps: readonly ScriptStep[]): number {
  const { asked } = history
  const before = parsePrompt(asked.prompt)
  const goesOn = isContinuation(prompt) && before.is === 'script' && isDeepStrictEqual(before.steps, steps)
  return goesOn ? asked.stepsDone : 0
}

function createContext(options: ScriptedOptions, sessionId: string, transcript: Transcript): RunnerContext {
  const { maxTurns, maxCostUsd } = options
  const interruption = new AbortController()
  let ignoresSignals = false
  process.on('SIGINT', () => (ignoresSignals ? undefined : interruption.abort()))
  process.on('SIGTERM', () => {
    if (ignoresSignals) return
    // Aborting also kills running commands.
    interruption.abort()
    process.exit(TERMINATED)
  })
  return {
    lines: new StreamLines({ sessionId, cwd: environment.cwd, uuid: randomUUID, now: Date.now }),
    meter: new UsageMeter(transcript.history.usage),
    transcript,
    environment,
    signal: interruption.signal,
    emit: (line) => (isPrinted(options, line) ? print(line) : undefined),
    printRaw: (text) => void stdout.write(`${text}\n`),
    now: Date.now,
    sleep: (ms) => sleep(ms, interruption.signal),
    ignoreSignals: () => {
      ignoresSignals = true
    },
    randomHex: (digits) =>
      randomBytes(Math.ceil(digits / 2))
        .toString('hex')
        .slice(0, digits),
    ...(maxTurns === undefined ? {} : { maxTurns }),
    ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
  }
}

function isPrinted({ format }: ScriptedOptions, { type }: StreamLine): boolean {
  return format === 'stream-json' || (format === 'json' && type === 'result')
}

function print(line: StreamLine): void {
  stdout.write(`${JSON.stringify(line)}\n`)
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal.addEventListener('abort', finish)
    if (signal.aborted) finish()
  })
}

/** Returns undefined when the input exceeds the limit. */
async function readStandardInput(): Promise<string | undefined> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of stdin) {
    bytes += piece.length
    if (bytes > PROMPT_BYTES_MAX) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString()
}

// ---- interactive -------------------------------------------------------------------------------------------------

async function runInteractive(resumed: string, firstTranscript: Transcript): Promise<void> {
  let [sessionId, transcript, meter] = [
    resumed,
    firstTranscript,
    new UsageMeter(firstTranscript.history.usage),
  ]
  const startNewSession = () => {
    const fresh = randomUUID()
    transcript = Transcript.begin(transcriptParts(fresh, true)) ?? transcript
    ;[sessionId, meter] = [fresh, new UsageMeter({})]
    return sessionId
  }
  const recordExchange = (typed: string, answered: string) => {
    const message = { id: `msg_${randomUUID()}`, requestId: `req_${randomUUID()}`, model: SCRIPTED_MODEL }
    const usage = meter.endMessage(meter.beginMessage(typed), answered)
    transcript.addPrompt(typed)
    transcript.addMessage(message, [{ type: 'text', text: answered }], usage, meter.sessionUsage())
  }
  const isTerminal = stdin.isTTY === true && stdout.isTTY === true
  const { history } = transcript
  exitAfterOutput(
    await runInteractiveSession({
      input: stdin,
      output: stdout,
      isTerminal,
      environment,
      sessionId,
      history,
      recordExchange,
      startNewSession,
    }),
  )
}

// ---- ends --------------------------------------------------------------------------------------------------------

/** Exits after all output is written, which a slow reader may delay. */
function exitAfterOutput(code: number): void {
  stdout.write('', () => process.exit(code))
}

function failWith(text: string): void {
  stderr.write(`${text}\n`)
  process.exitCode = FAILED
}

function reportUnknownSession(options: ScriptedOptions, sessionId: string): void {
  const text = `No conversation found with session ID: ${sessionId}`
  if (options.print && options.format !== 'text') print(unknownSessionResult(sessionId, text))
  else stderr.write(`${text}\n`)
  process.exitCode = FAILED
}

function unknownSessionResult(sessionId: string, text: string): StreamLine {
  return {
    type: 'result',
    subtype: 'error_during_execution',
    duration_ms: 0,
    duration_api_ms: 0,
    is_error: true,
    num_turns: 0,
    stop_reason: null,
    session_id: sessionId,
    total_cost_usd: 0,
    usage: NO_USAGE,
    modelUsage: {},
    permission_denials: [],
    uuid: randomUUID(),
    errors: [text],
    result_index: 0,
  }
}

/** Ends with the exit code, or by SIGKILL like a process that used too much memory. */
function crash(code: number | undefined): void {
  if (code !== undefined) exitAfterOutput(code)
  else stdout.write('', () => process.kill(process.pid, 'SIGKILL'))
}

type OutputFormat = 'text' | 'json' | 'stream-json'

interface ScriptedOptions {
  readonly print: boolean
  readonly format: OutputFormat
  readonly verbose: boolean
  readonly sessionId?: string
  readonly resume?: string
  readonly maxTurns?: number
  readonly maxCostUsd?: number
  readonly prompt?: string
}

type ParsedOptions =
  | { readonly ok: true; readonly options: ScriptedOptions }
  | { readonly ok: false; readonly error: string }

const SWITCHES = [
  '-p',
  '--print',
  '--verbose',
  '--dangerously-skip-permissions',
  '--continue',
  '--fork-session',
  '--include-partial-messages',
  '--replay-user-messages',
  '--no-session-persistence',
  '--strict-mcp-config',
  '--forward-subagent-text',
  '--include-hook-events',
  '--bare',
  '--safe-mode',
  '--restricted',
]
const FORMATS: readonly string[] = ['text', 'json', 'stream-json']
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/**
 * Parses the scripted agent's command line, which is agentA's; unsupported flags are ignored.
 *
 * An unknown flag takes the next word as its value unless that looks like a flag too, because most flags have a value
 * and the worker passes the prompt on standard input. Pure.
 */
function parseOptions(args: readonly string[]): ParsedOptions {
  const { flags, words } = splitArguments(args)
  const value = (name: string) => flags.get(name)
  const format = value('--output-format') ?? 'text'
  const [print, verbose] = [flags.has('-p') || flags.has('--print'), flags.has('--verbose')]
  const problem = findProblem(flags, format, print && !verbose)
  if (problem !== undefined) return { ok: false, error: problem }
  const options: ScriptedOptions = {
    print,
    verbose,
    format: format as OutputFormat,
    ...optional('sessionId', value('--session-id')),
    ...optional('resume', value('--resume') ?? value('-r')),
    ...optional('maxTurns', numberOf(value('--max-turns'))),
    ...optional('maxCostUsd', numberOf(value('--max-budget-usd'))),
    ...optional('prompt', words[0]),
  }
  return { ok: true, options }
}

function splitArguments(args: readonly string[]): { flags: Map<string, string>; words: string[] } {
  const flags = new Map<string, string>()
  const words: string[] = []
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ''
    const next = args[at + 1]
    const [name = '', joined] = arg.startsWith('--') ? arg.split(/=(.*)/s) : [arg]
    if (arg === '--') return { flags, words: [...words, ...args.slice(at + 1)] }
    if (!arg.startsWith('-') || arg === '-') words.push(arg)
    else if (joined !== undefined) flags.set(name, joined)
    else if (SWITCHES.includes(arg) || next === undefined || next.startsWith('-')) flags.set(arg, '')
    else {
      flags.set(arg, next)
      at += 1
    }
  }
  return { flags, words }
}

function findProblem(
  flags: ReadonlyMap<string, string>,
  format: string,
  isQuiet: boolean,
): string | undefined {
  if (!FORMATS.includes(format)) return `Error: --output-format must be one of ${FORMATS.join(', ')}`
  if (format === 'stream-json' && isQuiet)
    return 'Error: When using --print, --output-format=stream-json requires --verbose'
  for (const name of ['--session-id', '--resume', '-r']) {
    const id = flags.get(name)
    if (id !== undefined && !UUID.test(id)) return `Error: ${name} must be a UUID`
  }
  for (const name of ['--max-turns', '--max-budget-usd']) {
    const number = flags.get(name)
    if (number !== undefined && !(Number(number) > 0)) return `Error: ${name} must be a positive number`
  }
  return undefined
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text)
}

function optional<K extends string, V>(key: K, value: V | undefined): { readonly [key in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { readonly [key in K]: V })
}

main().catch((error: unknown) => {
  failWith(`Error: ${messageOf(error)}`)
  process.exit(FAILED)
})
