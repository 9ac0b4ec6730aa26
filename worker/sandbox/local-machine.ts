/**
 * The machine as the sandbox sees it: which programs there are, what the kernel's switches say, and running a program
 * for a short while with something to read on descriptors 3, 4, 5 ….
 *
 * A started program gets an empty environment, the root folder to stand in, and no more of the output than a person
 * would read. It is killed when its time is up, and what it left open is not waited for.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { access, constants, readFile } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import { isNativeError } from 'node:util/types'
import { type OpenEscapeTarget, openEscapeTarget } from './escape-target.ts'

export interface ProbeCommand {
  readonly program: string
  readonly args: readonly string[]
  /** Written to descriptors 3, 4, 5 …, each followed by its end. */
  readonly inputs?: readonly (string | Uint8Array)[]
  /** Whom to run as, when that is somebody else. */
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
  /** undefined when there is no such file, or it can't be read. */
  read(path: string): Promise<string | undefined>
  run(command: ProbeCommand): Promise<CommandOutcome>
  openEscapeTarget(): Promise<OpenEscapeTarget>
}

export function thisMachine(): LocalMachine {
  const { platform, arch } = process
  // Only Windows has no user ids, and no sandbox either.
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
    // Most failures to start arrive as events, some (no right to change the user) are thrown.
    return { is: 'not started', reason: isNativeError(error) ? error.message : String(error) }
  }
}

function start({ program, args, inputs = [], as, timeoutMs }: ProbeCommand): ChildProcess {
  return spawn(program, args, {
    ...as,
    env: {},
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe', ...inputs.map(() => 'pipe' as const)],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  })
}

/** A program that ends before it has read everything is its own affair, and shows in how it ended. */
function writeInputs(child: ChildProcess, inputs: readonly (string | Uint8Array)[]): void {
  for (const [index, text] of inputs.entries()) {
    // Descriptors from 3 on were asked for as pipes, and Node makes those two-way streams.
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
      // What it left running may hold its pipes open for ever.
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
