/**
 * The scripted agent replaces agentA without a model: it runs the `switchyard` block of its prompt line by line.
 *
 * The program accepts agentA's command line and writes agentA's output format; `scripted/script.ts` describes the
 * script language. The program runs inside the sandbox, so that everything around an agent can be tested without an
 * account, a network or costs. The reported costs are invented and marked as such.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { SCRIPTED_MODEL } from '../../core/run/cost-source.ts'
import { ARTIFACTS_INSIDE, MEMORIES_INSIDE } from '../run/sandbox-paths.ts'
import { runInteractiveSession } from './scripted/interactive-session.ts'
import { parseOptions, type ScriptedOptions } from './scripted/options.ts'
import type { RunnerContext } from './scripted/runner-context.ts'
import { parsePrompt, type ScriptStep } from './scripted/script.ts'
import { type RunnerResult, ScriptRunner } from './scripted/script-runner.ts'
import { type StreamLine, StreamLines } from './scripted/stream-lines.ts'
import type { ToolEnvironment } from './scripted/tools.ts'
import { isContinuation, Transcript, type TranscriptOptions } from './scripted/transcript.ts'
import { NO_USAGE, UsageMeter } from './scripted/usage-meter.ts'

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

main().catch((error: unknown) => {
  failWith(`Error: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(FAILED)
})

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
