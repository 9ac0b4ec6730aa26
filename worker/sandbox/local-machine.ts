/**
 * The machine as the sandbox probe sees it: installed programs, kernel settings, and short program runs.
 *
 * A program runs with an empty environment, in the root folder, with inputs on descriptors 3, 4, 5 …. The output
 * is truncated to what a person would read. A timeout kills the program; pipes that its children keep open are not
 * awaited.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { access, constants, readFile } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import { isNativeError } from 'node:util/types'
import { requirePipes } from './descriptors.ts'
import { type OpenEscapeTarget, openEscapeTarget } from './escape-target.ts'

export interface ProbeCommand {
  readonly program: string
  readonly args: readonly string[]
  /** Contents written to descriptors 3, 4, 5 …; each descriptor is closed after its content. */
  readonly inputs?: readonly (string | Uint8Array)[]
  /** The user to run as; absent for the worker's own. */
  readonly as?: { readonly uid: number; readonly gid: number }
  readonly timeoutMs: number
}

export type CommandOutcome =
  | { readonly is: 'exited'; readonly code: number; readonly stdout: string; readonly stderr: string }
  | { readonly is: 'killed'; readonly signal: string; readonly stderr: string }
  | { readonly is: 'too slow' }
  | { readonly is: 'not started'; readonly reason: string }

export interface LocalMachine {
  readonly platform: string
  /** Node's name of the processor's architecture. */
  readonly arch: string
  /** The effective user id; 0 is root. */
  readonly euid: number
  readonly egid: number
  isProgram(path: string): Promise<boolean>
  /** Returns undefined when the file is missing or unreadable. */
  read(path: string): Promise<string | undefined>
  run(command: ProbeCommand): Promise<CommandOutcome>
  openEscapeTarget(): Promise<OpenEscapeTarget>
}

export function thisMachine(): LocalMachine {
  const { platform, arch } = process
  // Only Windows has no user ids, and it has no sandbox either.
  const [euid, egid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0]
  return { platform, arch, euid, egid, isProgram, read, run, openEscapeTarget }
}

const OUTPUT_CHARS_MAX = 64 * 1024
const LEFTOVERS_MS_MAX = 200

async function isProgram(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}

async function read(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined)
}

async function run(command: ProbeCommand): Promise<CommandOutcome> {
  try {
    const child = start(command)
    writeInputs(child, command.inputs ?? [])
    return await awaitOutcome(child)
  } catch (error) {
    // Most start failures arrive as events; some, such as a forbidden change of user, are thrown.
    return { is: 'not started', reason: isNativeError(error) ? error.message : String(error) }
  }
}

function start({ program, args, inputs = [], as, timeoutMs }: ProbeCommand): ChildProcess {
  const child = spawn(program, args, {
    ...as,
    env: {},
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe', ...inputs.map(() => 'pipe' as const)],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  })
  return requirePipes(child)
}

/** Ignores write errors: a program may exit before it has read everything, and its outcome shows why. */
function writeInputs(child: ChildProcess, inputs: readonly (string | Uint8Array)[]): void {
  for (const [index, text] of inputs.entries()) {
    // Descriptors from 3 on were requested as pipes, which Node implements as duplex streams.
    const pipe = child.stdio[index + 3] as Writable | null | undefined
    pipe?.on('error', () => {}).end(text)
  }
}

async function awaitOutcome(child: ChildProcess): Promise<CommandOutcome> {
  const [stdout, stderr] = [collectText(child.stdout), collectText(child.stderr)]
  const outcome = await new Promise<CommandOutcome>((resolve) => {
    const exited = (code: number) => resolve({ is: 'exited', code, stdout: stdout(), stderr: stderr() })
    child.on('error', (error) => resolve({ is: 'not started', reason: error.message }))
    child.on('close', (code) => exited(code ?? -1))
    child.on('exit', (code, signal) => {
      if (signal !== null)
        resolve(child.killed ? { is: 'too slow' } : { is: 'killed', signal, stderr: stderr() })
      // Background children may hold the pipes open forever.
      else setTimeout(exited, LEFTOVERS_MS_MAX, code ?? -1).unref()
    })
  })
  for (const stream of child.stdio) stream?.destroy()
  return outcome
}

function collectText(stream: Readable | null): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    text = (text + part).slice(0, OUTPUT_CHARS_MAX)
  })
  return () => text
}
