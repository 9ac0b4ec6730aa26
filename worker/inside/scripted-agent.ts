/**
 * A coding agent without a mind: it takes agentA's command line and speaks agentA's dialect, and does what the
 * `switchyard` block of its prompt says, line by line. The language is in `scripted/script.ts`.
 *
 * It runs inside the sandbox in an agent's place, so that everything around an agent can be tried and tested without an
 * account, a network or a bill. Whatever it claims to have spent is made up, and marked as such.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { ARTIFACTS_INSIDE, MEMORIES_INSIDE } from '../run/sandbox-paths.ts'
import { Dialect, type Line } from './scripted/stream-lines.ts'
import { Meter, MODEL, NO_USAGE } from './scripted/usage-meter.ts'
import { type Options, readOptions } from './scripted/options.ts'
import { type Finale, Performance } from './scripted/script-runner.ts'
import { readPrompt } from './scripted/script.ts'
import type { Stage } from './scripted/runner-context.ts'
import { converse } from './scripted/interactive-session.ts'
import type { Surroundings } from './scripted/tools.ts'
import { Transcript, type TranscriptParts } from './scripted/transcript.ts'

const PROMPT_BYTES_MAX = 8 * 1024 * 1024
const [FAILED, TERMINATED] = [1, 143]
const HOW_TO_WRITE = [
  'This is the scripted agent: it does what a block of the ticket says, and this ticket has none. Write one such as:',
  '```switchyard',
  'write hello.txt',
  '  Hello!',
  'commit Say hello',
  '```',
].join('\n')

const { env, stdin, stdout, stderr } = process
const around: Surroundings = {
  cwd: process.cwd(),
  artifacts: env.SWITCHYARD_ARTIFACTS ?? ARTIFACTS_INSIDE,
  memories: env.SWITCHYARD_MEMORIES ?? MEMORIES_INSIDE,
  env,
}

main().catch((error: unknown) => {
  complain(`Error: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(FAILED)
})

async function main(): Promise<void> {
  // Whoever listened went away: there is nobody left to work for.
  stdout.on('error', () => process.exit(FAILED))
  const read = readOptions(process.argv.slice(2))
  if (!read.ok) return complain(read.says)
  const { options } = read
  const sessionId = options.resume ?? options.sessionId ?? randomUUID()
  const transcript = transcriptFor(options, sessionId)
  if (transcript === undefined && options.resume === undefined)
    return complain(`Error: Session ID ${sessionId} is already in use.`)
  if (transcript === undefined) return unknownSession(options, sessionId)
  return options.print ? headless(options, sessionId, transcript) : interactive(sessionId, transcript)
}

function transcriptFor({ resume, print }: Options, sessionId: string): Transcript | undefined {
  const parts = transcriptParts(sessionId, !print)
  return resume === undefined ? Transcript.begin(parts) : Transcript.resume(parts)
}

function transcriptParts(sessionId: string, isAtTerminal: boolean): TranscriptParts {
  const folder = env.CLAUDE_CONFIG_DIR ?? join(env.HOME ?? homedir(), '.claude')
  return { folder, cwd: around.cwd, sessionId, isAtTerminal, uuid: randomUUID, now: Date.now }
}

// ---- without a person --------------------------------------------------------------------------------------------

async function headless(options: Options, sessionId: string, transcript: Transcript): Promise<void> {
  const prompt = options.prompt ?? (await readAll())
  if (prompt === undefined || prompt.trim() === '')
    return complain(
      'Error: Input must be provided either through stdin or as a prompt argument when using --print',
    )
  const stage = stageFor(options, sessionId, transcript)
  stage.emit(stage.dialect.init())
  transcript.prompt(prompt)
  const finale = await perform(stage, prompt)
  if (finale.is === 'crash') return crash(finale.code)
  if (options.format === 'text') stdout.write(`${finale.text}\n`)
  leave(finale.isError && !finale.isAborted ? FAILED : 0)
}

async function perform(stage: Stage, prompt: string): Promise<Finale> {
  const performance = new Performance(stage, prompt)
  const script = readPrompt(prompt)
  if (script.is === 'none') return performance.giveUp(HOW_TO_WRITE)
  if (script.is === 'bad')
    return performance.giveUp(`line ${script.line} of the switchyard block: ${script.says}`)
  return performance.carryOut(script.deeds)
}

function stageFor(options: Options, sessionId: string, transcript: Transcript): Stage {
  const { maxTurns, maxCostUsd } = options
  const interruption = new AbortController()
  let isDeaf = false
  process.on('SIGINT', () => (isDeaf ? undefined : interruption.abort()))
  process.on('SIGTERM', () => {
    if (isDeaf) return
    // Commands under way are killed with it.
    interruption.abort()
    process.exit(TERMINATED)
  })
  return {
    dialect: new Dialect({ sessionId, cwd: around.cwd, uuid: randomUUID, now: Date.now }),
    meter: new Meter(transcript.past.spent),
    transcript,
    around,
    signal: interruption.signal,
    emit: (line) => (isTold(options, line) ? print(line) : undefined),
    blurt: (text) => void stdout.write(`${text}\n`),
    now: Date.now,
    sleep: (ms) => sleep(ms, interruption.signal),
    deafen: () => {
      isDeaf = true
    },
    hex: (digits) =>
      randomBytes(Math.ceil(digits / 2))
        .toString('hex')
        .slice(0, digits),
    ...(maxTurns === undefined ? {} : { maxTurns }),
    ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
  }
}

function isTold({ format }: Options, { type }: Line): boolean {
  return format === 'stream-json' || (format === 'json' && type === 'result')
}

function print(line: Line): void {
  stdout.write(`${JSON.stringify(line)}\n`)
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', wake)
      resolve()
    }
    const timer = setTimeout(wake, ms)
    signal.addEventListener('abort', wake)
    if (signal.aborted) wake()
  })
}

/** undefined: it is longer than any prompt. */
async function readAll(): Promise<string | undefined> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of stdin) {
    bytes += piece.length
    if (bytes > PROMPT_BYTES_MAX) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString()
}

// ---- with one ----------------------------------------------------------------------------------------------------

async function interactive(resumed: string, begun: Transcript): Promise<void> {
  let [sessionId, transcript, meter] = [resumed, begun, new Meter(begun.past.spent)]
  const clear = () => {
    const fresh = randomUUID()
    transcript = Transcript.begin(transcriptParts(fresh, true)) ?? transcript
    ;[sessionId, meter] = [fresh, new Meter({})]
    return sessionId
  }
  const note = (said: string, answered: string) => {
    const message = { id: `msg_${randomUUID()}`, requestId: `req_${randomUUID()}`, model: MODEL }
    const usage = meter.end(meter.begin(said), answered)
    transcript.prompt(said)
    transcript.message(message, [{ type: 'text', text: answered }], usage, meter.total())
  }
  const isTerminal = stdin.isTTY === true && stdout.isTTY === true
  const { past } = transcript
  leave(await converse({ input: stdin, output: stdout, isTerminal, around, sessionId, past, note, clear }))
}

// ---- ends --------------------------------------------------------------------------------------------------------

/** Once everything it said is handed over: to a reader who takes his time, that is later. */
function leave(code: number): void {
  stdout.write('', () => process.exit(code))
}

function complain(text: string): void {
  stderr.write(`${text}\n`)
  process.exitCode = FAILED
}

function unknownSession(options: Options, sessionId: string): void {
  const text = `No conversation found with session ID: ${sessionId}`
  if (options.print && options.format !== 'text') print(unknownResult(sessionId, text))
  else stderr.write(`${text}\n`)
  process.exitCode = FAILED
}

function unknownResult(sessionId: string, text: string): Line {
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

/** As the kernel ends one that takes too much, or as the agent ends itself when it breaks. */
function crash(code: number | undefined): void {
  if (code !== undefined) leave(code)
  else stdout.write('', () => process.kill(process.pid, 'SIGKILL'))
}
