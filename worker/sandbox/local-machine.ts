/**
 * The machine as the sandbox probe sees it: installed programs, kernel settings, and short program runs; and the
 * escape test, which looks from inside a sandbox for ways to this machine.
 *
 * A program runs with an empty environment, in the root folder, with inputs on descriptors 3, 4, 5 …. The output is
 * truncated to what a person would read. A timeout kills the program; pipes that its children keep open are not
 * awaited.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readlinkSync, statSync } from 'node:fs'
import { access, constants, readFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { homedir } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { messageOf } from '../../protocol/message-of.ts'
import { requirePipes } from './descriptors.ts'

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
    return { is: 'not started', reason: messageOf(error) }
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

// ---- the target of the escape test ---------------------------------------------------------------------------------

interface OpenEscapeTarget extends EscapeTarget {
  close(): void
}

/** Collects the host facts that an escape test is compared with, and opens a listener that it must not reach. */
async function openEscapeTarget(): Promise<OpenEscapeTarget> {
  // Collect these before listening: if they throw, an unclosed listener would keep the process alive.
  const { home, inode } = homeOrRoot()
  const namespaces = NAMESPACES.map((kind) => readlinkSync(`/proc/self/ns/${kind}`))
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { pid: process.pid, port, home, inode, namespaces, close: () => server.close() }
}

/** Service users often have no home folder; the test then looks for the host's root folder instead. */
function homeOrRoot(): { readonly home: string; readonly inode: string } {
  try {
    return inspectFolder(homedir())
  } catch {
    return inspectFolder('/')
  }
}

function inspectFolder(home: string) {
  const { dev, ino } = statSync(home, { bigint: true })
  return { home, inode: `${dev}:${ino}` }
}

/** Facts about the host that the escape test compares with what it finds inside. */
export interface EscapeTarget {
  readonly pid: number
  /** Port of a listener on the host's loopback. */
  readonly port: number
  readonly home: string
  /** Device and inode of the home folder. */
  readonly inode: string
  /** The link targets below /proc/self/ns. */
  readonly namespaces: readonly string[]
}

export const NAMESPACES = ['user', 'pid', 'net', 'mnt', 'ipc', 'uts', 'cgroup'] as const

// ---- the escape test -----------------------------------------------------------------------------------------------

const REQUIRED_TOOLS = ['unshare', 'mount', 'stat', 'readlink', 'cat', 'mknod']
const ATTEMPTS: Readonly<Record<string, string>> = {
  mount: 'mounting in a user namespace of its own',
  core_pattern: "writing the kernel's core_pattern",
  kill: 'reaching a process of the host',
  loopback: "connecting to the host's loopback",
  home: "seeing the host's home folder",
}
/** The device 0, 0 is the only one that every user may make. */
const LANDLOCK_ATTEMPTS: Readonly<Record<string, string>> = { device: 'making a device file' }

const SCRIPT = `
pid=$1 port=$2 home=$3 inode=$4
for tool in ${REQUIRED_TOOLS.join(' ')}; do command -v $tool >/dev/null || echo "missing $tool"; done
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo "done $what"; else echo "refused $what"; fi; }
try mount unshare --user --map-root-user --mount mount -t tmpfs none /tmp
try core_pattern sh -c ': >> /proc/sys/kernel/core_pattern'
try kill kill -0 "$pid"
try loopback bash -c ": <>/dev/tcp/127.0.0.1/$port"
try home sh -c '[ "$(stat -c %d:%i "$1")" = "$2" ]' sh "$home" "$inode"
try device sh -c 'mknod "$1" c 0 0 && rm "$1"' sh "/tmp/switchyard-device-$$"
for kind in ${NAMESPACES.join(' ')}; do echo "namespace $(readlink /proc/self/ns/$kind)"; done
cat /proc/self/status
`
/**
 * A lower pid may exist inside the sandbox too, so the `kill` attempt would prove nothing; the namespace check must do.
 */
const UNAMBIGUOUS_PID_MIN = 100
export const ESCAPE_TEST_PROCESSES_MAX = 64

/**
 * The escape test: a script that runs once in a sandbox and tries the five most important ways out of it, and one that
 * Landlock alone closes.
 *
 * The test also checks the namespaces and the process status as the kernel reports them. A successful attempt changes
 * nothing: files are opened but not written, a process is probed but not ended, and what is made is removed.
 */
export function escapeTestCommand({ pid, port, home, inode }: EscapeTarget): string[] {
  const targetPid = pid >= UNAMBIGUOUS_PID_MIN ? String(pid) : 'none'
  return ['/bin/sh', '-c', SCRIPT, 'trial', targetPid, String(port), home, inode]
}

/** Describes the gaps that this test output shows; undefined when the sandbox isolates completely. */
export function findEscapes(output: string, target: EscapeTarget, hasLandlock = false): string | undefined {
  const lines = output.split('\n')
  const missing = lines.filter((line) => line.startsWith('missing ')).map((line) => line.slice(8))
  if (missing.length > 0)
    return `it cannot be tested without ${missing.join(', ')}; install util-linux and coreutils`
  const escapes = [
    ...findSuccessfulAttempts(lines, hasLandlock ? { ...ATTEMPTS, ...LANDLOCK_ATTEMPTS } : ATTEMPTS),
    ...findSharedNamespaces(lines, target),
    ...findMissingGuards(output),
  ]
  return escapes.length === 0 ? undefined : `it does not isolate: ${escapes.join(', ')}`
}

function findSuccessfulAttempts(
  lines: readonly string[],
  attempts: Readonly<Record<string, string>>,
): string[] {
  return Object.entries(attempts).flatMap(([name, attempt]) => {
    if (lines.includes(`refused ${name}`)) return []
    return [lines.includes(`done ${name}`) ? `${attempt} was possible` : `${attempt} was not tried`]
  })
}

function findSharedNamespaces(lines: readonly string[], { namespaces }: EscapeTarget): string[] {
  return NAMESPACES.flatMap((kind, index) => {
    const inside = lines.find((line) => line.startsWith(`namespace ${kind}:`))?.slice(10)
    return inside !== undefined && inside !== namespaces[index] ? [] : [`the ${kind} namespace is the host's`]
  })
}

const PROCESS_GUARDS: readonly (readonly [RegExp, what: string])[] = [
  [/^NoNewPrivs:\s*1$/m, 'programs may gain rights'],
  [/^Seccomp:\s*2$/m, 'system calls are not filtered'],
  [/^CapEff:\s*0+$/m, 'it has capabilities'],
  [/^CapBnd:\s*0+$/m, 'it could gain capabilities'],
]

function findMissingGuards(output: string): string[] {
  return PROCESS_GUARDS.filter(([pattern]) => !pattern.test(output)).map(([, problem]) => problem)
}
