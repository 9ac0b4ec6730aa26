/**
 * The sandbox of one run as its execution uses it: several commands, one after the other, on the same disk.
 *
 * Each command is a sandbox process of its own, all with the same walls. Whatever was started is known here, so that
 * stopping leaves nobody behind, and nothing is started any more once it was stopped.
 */
import type { ExecutionReporter } from '../../core/daemon/ports.ts'
import type { JobSandbox } from '../../protocol/frames.ts'
import { splitLog } from '../../protocol/text-budget.ts'
import { createLineReader } from '../agents/line-reader.ts'
import { toPrintable as readable } from '../agents/printable-output.ts'
import type { Inside, InsideResult } from '../git/git-ports.ts'
import type { SandboxFile } from '../sandbox/arguments.ts'
import type { SandboxEgress } from '../sandbox/egress/sandbox-egress.ts'
import type { SandboxEnd, SandboxOrder, SandboxProcess } from '../sandbox/sandbox-process.ts'
import type { HandsParts } from './dependencies.ts'
import { OUT, OWN_PROGRAMS } from './sandbox-paths.ts'
import type { SandboxFolders } from './sandboxes.ts'

const OUTPUT_KEPT_BYTES = 64 * 1024
const INSIDE_MS_MAX = 10 * 60_000
/** A repository's own commands end by themselves or are ended. */
const SCRIPT_MS_MAX = 30 * 60_000

/** What of a job its walls depend on. */
export interface RoomJob {
  readonly run: { readonly id: string }
  readonly sandbox?: Pick<JobSandbox, 'maxProcesses' | 'memoryMib'>
}

export interface RoomParts {
  readonly hands: HandsParts
  readonly job: RoomJob
  readonly folders: SandboxFolders & { readonly number: number }
  readonly way: SandboxEgress
  readonly reporter: ExecutionReporter
}

/** `lateMinutes`: it did not end by itself in so many. */
export type ScriptEnd = SandboxEnd & { readonly lateMinutes?: number }

export type Command = Pick<SandboxOrder, 'command' | 'stdin' | 'openInput' | 'mounts'> & {
  readonly shown?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly files?: readonly SandboxFile[]
  /** Through the proxy, as far as the configuration lets it. */
  readonly wayOut?: boolean
}

export class Room implements Inside {
  readonly folders: SandboxFolders
  readonly #parts: RoomParts
  readonly #running = new Set<SandboxProcess>()
  #stopped = false

  constructor(parts: RoomParts) {
    this.#parts = parts
    this.folders = parts.folders
  }

  /** undefined once it was stopped. */
  start({
    command,
    shown = [],
    environment = {},
    files = [],
    wayOut = false,
    ...rest
  }: Command): SandboxProcess | undefined {
    if (this.#stopped) return undefined
    const { hands, job, folders, way } = this.#parts
    const goesOut = wayOut && way.socketPath !== undefined
    const process = hands.launcher.launch({
      user: hands.slotOf(folders.number),
      name: job.run.id,
      workFolder: folders.work,
      homeFolder: folders.home,
      readOnlyPaths: [...new Set([...hands.node.shown, ...shown])],
      environment: { ...ownEnvironment(hands), ...(wayOut ? way.environment : {}), ...environment },
      files: [{ path: '/etc/gitconfig', mode: '0444', text: hands.gitconfig }, ...files],
      maxProcesses: job.sandbox?.maxProcesses ?? PROCESSES_MAX,
      ...(job.sandbox?.memoryMib === undefined ? {} : { memoryMib: job.sandbox.memoryMib }),
      ...rest,
      mounts: [
        { from: folders.out, to: OUT, writable: true },
        { from: hands.insidePrograms, to: OWN_PROGRAMS },
        ...(rest.mounts ?? []),
      ],
      ...(goesOut && way.socketPath !== undefined ? { egressSocket: way.socketPath } : {}),
      command: wayOut ? way.wrapCommand(command) : command,
    })
    this.#running.add(process)
    void process.ended.then(() => this.#running.delete(process))
    return process
  }

  async run(command: readonly string[], options: Parameters<Inside['run']>[1] = {}): Promise<InsideResult> {
    const { mounts, stdin, timeoutMs = INSIDE_MS_MAX } = options
    const process = this.start({
      command,
      ...(mounts === undefined ? {} : { mounts }),
      ...(stdin === undefined ? {} : { stdin }),
    })
    if (process === undefined) return { output: 'stopped' }
    const tail = new Tail()
    const end = await this.#within(timeoutMs, process, [
      drain(process.stdout, (chunk) => tail.add(chunk)),
      drain(process.stderr, (chunk) => tail.add(chunk)),
    ])
    return {
      output: tail.text(),
      ...(end.code === undefined ? {} : { code: end.code }),
      ...(end.startFailure === undefined ? {} : { unmade: end.startFailure }),
    }
  }

  /** A command of the repository's own; what it prints goes to the run's log. */
  async script(text: string): Promise<ScriptEnd> {
    const process = this.start({ command: ['/bin/sh', '-c', PIPED, 'script', text], wayOut: true })
    if (process === undefined) return {}
    return this.#within(SCRIPT_MS_MAX, process, [
      this.#log(process.stdout, 'stdout'),
      this.#log(process.stderr, 'stderr'),
    ])
  }

  say(text: string): void {
    this.#tellLog('system', text)
  }

  /** Nobody inside goes on, and nobody is let in again. */
  stop(): void {
    this.#stopped = true
    for (const process of this.#running) process.kill()
  }

  async empty(): Promise<void> {
    await Promise.all([...this.#running].map(({ ended }) => ended))
  }

  async close(): Promise<void> {
    this.stop()
    await this.empty()
    await this.#parts.way.close()
  }

  // ---- output ----------------------------------------------------------------------------------------------------

  async #log(stream: AsyncIterable<Buffer>, name: 'stdout' | 'stderr'): Promise<void> {
    const lines = createLineReader()
    const tell = (read: readonly string[]): void => {
      if (read.length > 0) this.#tellLog(name, read.map(readable).join('\n'))
    }
    await drain(stream, async (chunk) => {
      tell(lines.push(chunk))
      await this.#parts.reporter.waitForCapacity()
    })
    tell(lines.flush())
  }

  #tellLog(stream: 'stdout' | 'stderr' | 'system', text: string): void {
    const at = new Date(this.#parts.hands.clock.now()).toISOString()
    for (const piece of splitLog(text))
      this.#parts.reporter.report({ is: 'event', event: { type: 'log', at, stream, text: piece } })
  }

  async #within(timeoutMs: number, process: SandboxProcess, reading: Promise<void>[]): Promise<ScriptEnd> {
    let late = {}
    const cancel = this.#parts.hands.clock.after(timeoutMs, () => {
      late = { lateMinutes: timeoutMs / 60_000 }
      process.kill()
    })
    try {
      await Promise.all(reading)
      return { ...(await process.ended), ...late }
    } finally {
      cancel()
    }
  }
}

const PROCESSES_MAX = 512

/**
 * What comes out of a sandbox are sockets, and those can't be opened anew: `echo … > /dev/stderr`, which people write,
 * would fail. So a script gets pipes, and what it leaves running in them is not waited for.
 */
const PIPED = [
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

function ownEnvironment({ node }: HandsParts): Record<string, string> {
  const beside = node.program.slice(0, node.program.lastIndexOf('/'))
  const standard = ['/usr/local/bin', '/usr/bin', '/bin']
  const folders = [OWN_PROGRAMS, ...(standard.includes(beside) ? [] : [beside]), ...standard]
  return {
    PATH: folders.join(':'),
    SWITCHYARD_NODE: node.program,
    SWITCHYARD_ARTIFACTS: `${OUT}/artifacts`,
    SWITCHYARD_MEMORIES: `${OUT}/memories`,
  }
}

async function drain(
  stream: AsyncIterable<Buffer>,
  take: (chunk: Buffer) => void | Promise<void>,
): Promise<void> {
  try {
    for await (const chunk of stream) await take(chunk)
  } catch {
    // A pipe that breaks ends like one that closes.
  }
}

/** The last part of what was printed. */
class Tail {
  #chunks: Buffer[] = []
  #bytes = 0

  add(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.byteLength
    while (this.#bytes - (this.#chunks[0]?.byteLength ?? 0) > OUTPUT_KEPT_BYTES) {
      this.#bytes -= this.#chunks.shift()?.byteLength ?? 0
    }
  }

  text(): string {
    return Buffer.concat(this.#chunks).subarray(-OUTPUT_KEPT_BYTES).toString('utf8')
  }
}
