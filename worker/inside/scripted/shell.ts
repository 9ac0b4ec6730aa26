/**
 * A command of the script, run by the shell in a process group of its own, so that nothing of it outlives its end.
 *
 * What it prints is bounded: beginning and end are kept, the middle is counted.
 */
import { spawn } from 'node:child_process'
import { delimiter, dirname } from 'node:path'

export interface ShellResult {
  /** Both streams, in the order in which they came. */
  readonly output: string
  /** undefined: it was killed. */
  readonly code?: number
}

const OUTPUT_HALF_BYTES_MAX = 32 * 1024
export const COMMAND_MS_MAX = 600_000

/** Never rejects; `signal` kills it. */
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
    child.stdout.on('data', (bytes: Buffer) => kept.add(bytes))
    child.stderr.on('data', (bytes: Buffer) => kept.add(bytes))
    child.on('error', (error) => done({ output: `${program} cannot be started: ${error.message}` }))
    // What it left running in the background still holds the streams.
    child.on('exit', kill)
    child.on('close', (code) => done({ output: kept.text(), ...(code === null ? {} : { code }) }))
  })
}

/** Scripts run `node` as well as it runs us, wherever it is. */
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
    // Gone already.
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
