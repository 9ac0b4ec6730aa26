/**
 * `SandboxSession` runs the commands of one execution or one resumed sandbox on the same disk: one after the other;
 * only a command on hold (`agent/agent-launch.ts`) may wait beside another.
 *
 * Each command is a separate sandbox process with the same isolation. The session knows every process that it started:
 * `stop` kills all of them and refuses every later start.
 */
import type { ExecutionReporter } from '../../core/daemon/ports.ts'
import { createLineReader } from '../../core/line-reader.ts'
import { toPrintable as readable } from '../../core/printable-output.ts'
import type { JobSandbox } from '../../protocol/frames.ts'
import { splitLog } from '../../protocol/text-budget.ts'
import type { SandboxCommandResult, SandboxRunner } from '../git/git-ports.ts'
import type { SandboxEnd, SandboxFile, SandboxOrder, SandboxProcess } from '../sandbox/driver.ts'
import type { SandboxEgress } from '../sandbox/egress/sandbox-egress.ts'
import { MODEL_API_PORT, MODEL_SOCKET, OUT_INSIDE, PROGRAMS_INSIDE } from '../sandbox/inside-paths.ts'
import type { SandboxFolders } from './disk/sandboxes.ts'
import type { ExecutorDependencies } from './execution/executor-dependencies.ts'

const MODEL_FORWARD = { port: MODEL_API_PORT, socket: MODEL_SOCKET }
const INSIDE_MS_MAX = 10 * 60_000
/** Setup and hooks of a repository are killed after this time. */
const SCRIPT_MS_MAX = 30 * 60_000
const PROCESSES_MAX = 512

/** The part of a job that the isolation depends on. */
export interface SandboxSessionJob {
  readonly run: { readonly id: string }
  readonly sandbox?: Pick<JobSandbox, 'maxProcesses' | 'memoryMib'>
}

export interface SandboxSessionOptions {
  readonly dependencies: ExecutorDependencies
  readonly job: SandboxSessionJob
  readonly folders: SandboxFolders & { readonly number: number }
  readonly egress: SandboxEgress
  readonly reporter: ExecutionReporter
  /** Removes the run's secrets from lines of the run's log. */
  readonly redact?: (text: string) => string
}

/** Part of a session that stays open until its end. Closing it twice is harmless. */
interface Closable {
  close(): Promise<void>
}

/** `timedOutMinutes`: the script was killed after this many minutes. */
export type ScriptEnd = SandboxEnd & { readonly timedOutMinutes?: number }

export type SandboxCommand = Pick<SandboxOrder, 'command' | 'stdin' | 'openInput' | 'mounts'> & {
  readonly readOnlyPaths?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly files?: readonly SandboxFile[]
  /** Whether the command reaches the network, through the proxy, as far as the configuration allows. */
  readonly withEgress?: boolean
  /** Host path of the socket of the model's API; only the agent's command gets it. */
  readonly modelSocket?: string
}

export class SandboxSession implements SandboxRunner {
  readonly folders: SandboxSessionOptions['folders']
  readonly #options: SandboxSessionOptions
  readonly #running = new Set<SandboxProcess>()
  readonly #parts: Closable[] = []
  #isStopped = false

  constructor(options: SandboxSessionOptions) {
    this.#options = options
    this.folders = options.folders
  }

  /** Returns undefined once the session was stopped. */
  start({
    command,
    readOnlyPaths = [],
    environment = {},
    files = [],
    withEgress = false,
    modelSocket,
    ...rest
  }: SandboxCommand): SandboxProcess | undefined {
    if (this.#isStopped) return undefined
    const { dependencies, job, folders, egress } = this.#options
    const usesProxy = withEgress && egress.socketPath !== undefined
    const memoryMib = job.sandbox?.memoryMib ?? dependencies.memoryMib
    const process = dependencies.launcher.launch({
      user: dependencies.userFor(folders.number),
      name: job.run.id,
      workFolder: folders.work,
      homeFolder: folders.home,
      readOnlyPaths: [...new Set(readOnlyPaths)],
      environment: {
        ...baseEnvironment(dependencies),
        ...(withEgress ? egress.environment : {}),
        ...environment,
      },
      files: [{ path: '/etc/gitconfig', mode: '0444', text: dependencies.gitconfig }, ...files],
      maxProcesses: job.sandbox?.maxProcesses ?? PROCESSES_MAX,
      ...(memoryMib === undefined ? {} : { memoryMib }),
      ...rest,
      mounts: [
        { from: folders.out, to: OUT_INSIDE, writable: true },
        { from: dependencies.insidePrograms, to: PROGRAMS_INSIDE },
        ...dependencies.node.mounts,
        ...(modelSocket === undefined ? [] : [{ from: modelSocket, to: MODEL_SOCKET }]),
        ...(rest.mounts ?? []),
      ],
      ...(usesProxy && egress.socketPath !== undefined ? { egressSocket: egress.socketPath } : {}),
      command: withEgress
        ? egress.wrapCommand(command, modelSocket === undefined ? [] : [MODEL_FORWARD])
        : command,
    })
    this.#running.add(process)
    void process.ended.then(() => this.#running.delete(process))
    return process
  }

  async run(
    command: readonly string[],
    options: Parameters<SandboxRunner['run']>[1] = {},
  ): Promise<SandboxCommandResult> {
    const { mounts, stdin, timeoutMs = INSIDE_MS_MAX, signal } = options
    const process = this.start({
      command,
      ...(mounts === undefined ? {} : { mounts }),
      ...(stdin === undefined ? {} : { stdin }),
    })
    if (process === undefined) return { output: 'stopped' }
    const tail = new OutputTail()
    const reading = [
      readChunks(process.stdout, (chunk) => tail.add(chunk)),
      readChunks(process.stderr, (chunk) => tail.add(chunk)),
    ]
    const end = await this.#waitForEnd(timeoutMs, process, reading, signal)
    return {
      output: tail.text(),
      ...(end.code === undefined ? {} : { code: end.code }),
      ...(end.startFailure === undefined ? {} : { startFailure: end.startFailure }),
      ...(end.timedOutMinutes === undefined ? {} : { timedOutMinutes: end.timedOutMinutes }),
    }
  }

  /** Runs a script of the repository; its output goes to the run's log. */
  async runScript(text: string, signal?: AbortSignal): Promise<ScriptEnd> {
    const process = this.start({
      command: ['/bin/sh', '-c', SCRIPT_WITH_PIPES, 'script', text],
      withEgress: true,
    })
    if (process === undefined) return {}
    const reading = [this.#logStream(process.stdout, 'stdout'), this.#logStream(process.stderr, 'stderr')]
    return this.#waitForEnd(SCRIPT_MS_MAX, process, reading, signal)
  }

  log(text: string): void {
    this.#reportLog('system', readable(text))
  }

  /** Kills every process, and refuses every later start. */
  stop(): void {
    this.#isStopped = true
    for (const process of this.#running) process.kill()
  }

  async waitUntilEmpty(): Promise<void> {
    await Promise.all([...this.#running].map(({ ended }) => ended))
  }

  /** Closes the part together with the session, after every process has ended. */
  closeWith(part: Closable): void {
    this.#parts.push(part)
  }

  async close(): Promise<void> {
    this.stop()
    await this.waitUntilEmpty()
    await Promise.all([...this.#parts, this.#options.egress].map((part) => part.close()))
  }

  // ---- output ----------------------------------------------------------------------------------------------------

  async #logStream(stream: AsyncIterable<Buffer>, name: 'stdout' | 'stderr'): Promise<void> {
    const lines = createLineReader()
    const report = (read: readonly string[]): void => {
      if (read.length > 0) this.#reportLog(name, read.map(readable).join('\n'))
    }
    await readChunks(stream, async (chunk) => {
      report(lines.push(chunk))
      await this.#options.reporter.waitForCapacity()
    })
    report(lines.flush())
  }

  #reportLog(stream: 'stdout' | 'stderr' | 'system', text: string): void {
    const at = new Date(this.#options.dependencies.clock.now()).toISOString()
    const { redact = (line: string) => line } = this.#options
    for (const piece of splitLog(redact(text)))
      this.#options.reporter.report({ is: 'event', event: { type: 'log', at, stream, text: piece } })
  }

  async #waitForEnd(
    timeoutMs: number,
    process: SandboxProcess,
    reading: Promise<void>[],
    signal: AbortSignal | undefined,
  ): Promise<ScriptEnd> {
    let late = {}
    const kill = () => process.kill()
    signal?.addEventListener('abort', kill, { once: true })
    if (signal?.aborted === true) kill()
    const cancel = this.#options.dependencies.clock.after(timeoutMs, () => {
      late = { timedOutMinutes: timeoutMs / 60_000 }
      process.kill()
    })
    try {
      await Promise.all(reading)
      return { ...(await process.ended), ...late }
    } finally {
      cancel()
      signal?.removeEventListener('abort', kill)
    }
  }
}

// ---- scripts of a repository ---------------------------------------------------------------------------------------

const NETWORK_HINTS = {
  open: '',
  allowlist:
    ' (sandbox.network is allowlist: the log names the hosts it reached; allow more in sandbox.allowedHosts)',
  none: ' (sandbox.network is none: it reached no other machine)',
} as const

/** The name of the hook that follows the agent. */
export const AFTER_AGENT = 'hook afterAgent'

/** `name`: which script of the repository failed. */
export function describeScriptFailure(
  name: string,
  { code, signal, startFailure, timedOutMinutes }: ScriptEnd,
  network: keyof typeof NETWORK_HINTS = 'none',
): string {
  if (startFailure !== undefined) return startFailure
  const ended = code === undefined ? `was ended by ${signal ?? 'a signal'}` : `ended with exit code ${code}`
  const ending =
    timedOutMinutes === undefined ? ended : `did not end within ${timedOutMinutes} minutes, and was killed`
  return `the repository's ${name} ${ending}; its output is in the run's log${NETWORK_HINTS[network]}`
}

/**
 * The output streams of a sandbox are sockets, which cannot be opened again: `echo … > /dev/stderr` in a setup script
 * would fail. Therefore a script gets pipes; background processes that keep them open are not waited for.
 */
const SCRIPT_WITH_PIPES = [
  'folder=$(mktemp -d) && mkfifo "$folder/out" "$folder/err" || exit 70',
  'cat "$folder/out" & out=$!',
  'cat "$folder/err" >&2 & err=$!',
  '/bin/sh -c "$1" >"$folder/out" 2>"$folder/err" </dev/null',
  'code=$?',
  'rm -rf "$folder"',
  '(sleep 2; kill "$out" "$err") >/dev/null 2>&1 &',
  '{ wait "$out" "$err"; } 2>/dev/null',
  'exit "$code"',
].join('\n')

function baseEnvironment({ node }: ExecutorDependencies): Record<string, string> {
  const nodeFolder = node.program.slice(0, node.program.lastIndexOf('/'))
  const standard = ['/usr/local/bin', '/usr/bin', '/bin']
  const folders = [PROGRAMS_INSIDE, ...(standard.includes(nodeFolder) ? [] : [nodeFolder]), ...standard]
  return {
    PATH: folders.join(':'),
    SWITCHYARD_NODE: node.program,
    SWITCHYARD_ARTIFACTS: `${OUT_INSIDE}/artifacts`,
    SWITCHYARD_MEMORIES: `${OUT_INSIDE}/memories`,
  }
}

// ---- output --------------------------------------------------------------------------------------------------------

/** Reads the output streams of sandbox processes. */
async function readChunks(
  stream: AsyncIterable<Buffer>,
  onChunk: (chunk: Buffer) => void | Promise<void>,
): Promise<void> {
  try {
    for await (const chunk of stream) await onChunk(chunk)
  } catch {
    // A broken pipe counts as the end of the stream.
  }
}

const OUTPUT_TAIL_BYTES = 64 * 1024

/** Keeps the last part of the output. */
class OutputTail {
  #chunks: Buffer[] = []
  #bytes = 0

  add(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.byteLength
    while (this.#bytes - (this.#chunks[0]?.byteLength ?? 0) > OUTPUT_TAIL_BYTES) {
      this.#bytes -= this.#chunks.shift()?.byteLength ?? 0
    }
  }

  text(): string {
    return Buffer.concat(this.#chunks).subarray(-OUTPUT_TAIL_BYTES).toString('utf8')
  }
}
