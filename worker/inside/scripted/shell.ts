/**
 * Runs a command of the script in its own process group, so that no process of it outlives the command.
 *
 * The output is limited: its beginning and end are kept, and the middle is only counted.
 */
import { spawn } from 'node:child_process'
import { delimiter, dirname } from 'node:path'

export interface ShellResult {
  /** Both streams in arrival order. */
  readonly output: string
  /** Absent when the command was killed. */
  readonly code?: number
}

const OUTPUT_HALF_BYTES_MAX = 32 * 1024
export const COMMAND_MS_MAX = 600_000

/** Never rejects. Aborting `signal` kills the command. */
export function runShell(
  command: readonly [program: string, ...args: string[]],
  options: { readonly cwd: string; readonly signal: AbortSignal },
): Promise<ShellResult> {
  const [program, ...args] = command
  return new Promise((resolve) => {
    const kept = new BoundedOutput()
    const child = spawn(program, args, {
      env: childEnvironment(),
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const kill = () => killGroup(child.pid)
    const timer = setTimeout(kill, COMMAND_MS_MAX)
    options.signal.addEventListener('abort', kill, { once: true })
    if (options.signal.aborted) kill()
    const done = (end: ShellResult) => {
      clearTimeout(timer)
      options.signal.removeEventListener('abort', kill)
      resolve(end)
    }
    child.on('error', (error) => done({ output: `${program} cannot be started: ${error.message}` }))
    // Without free descriptors Node creates no pipes, and emits the error a moment later.
    if (child.stdout === undefined) return
    child.stdout.on('data', (bytes: Buffer) => kept.add(bytes))
    child.stderr.on('data', (bytes: Buffer) => kept.add(bytes))
    // Background children still hold the streams open, so kill the whole group.
    child.on('exit', kill)
    child.on('close', (code) => done({ output: kept.text(), ...(code === null ? {} : { code }) }))
  })
}

/** Adds the folder of the running Node to the PATH, so that scripts can run `node`. */
function childEnvironment(): NodeJS.ProcessEnv {
  const own = dirname(process.execPath)
  const path = process.env.PATH ?? '/usr/bin:/bin'
  return { ...process.env, PATH: path.split(delimiter).includes(own) ? path : `${path}${delimiter}${own}` }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has ended.
  }
}

class BoundedOutput {
  #head = Buffer.alloc(0)
  #tail = Buffer.alloc(0)
  #dropped = 0

  add(bytes: Buffer): void {
    const headBytesLeft = OUTPUT_HALF_BYTES_MAX - this.#head.length
    this.#head = Buffer.concat([this.#head, bytes.subarray(0, headBytesLeft)])
    this.#tail = Buffer.concat([this.#tail, bytes.subarray(headBytesLeft)])
    const excess = Math.max(0, this.#tail.length - OUTPUT_HALF_BYTES_MAX)
    this.#dropped += excess
    this.#tail = this.#tail.subarray(excess)
  }

  text(): string {
    const gap = this.#dropped === 0 ? '' : `\n… ${this.#dropped} bytes are left out …\n`
    return `${this.#head.toString()}${gap}${this.#tail.toString()}`.trimEnd()
  }
}
