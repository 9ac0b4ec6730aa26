/**
 * Runs the example's host: `switchyard serve` in a child process, with its log in a file.
 *
 * The child has its own process group, so that Ctrl-C reaches it once, through this process; a second signal from the
 * terminal would stop it immediately. The child's standard input is a pipe, so that the child ends with this process in any case.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, constants, fstatSync, ftruncateSync, openSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { HostRefusal } from '../../../client/errors.ts'
import { requestText } from '../../../client/host-request.ts'
import { sendByNode } from '../../../client/node-http.ts'
import { dialByNode } from '../../../client/node-socket.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import type { HealthResponse } from '../../../protocol/worker.ts'
import { EXIT, ExitError, refusedError } from '../../process/exit.ts'
import type { Launch } from '../serve/launch-file.ts'
import type { ExampleFolder } from './data-folder.ts'

const LISTENING_MS_MAX = 20_000
const POLL_MS = 25
const STOP_MS_MAX = 8_000
const LIMIT = { timeoutMs: 10_000 }
/** How long the host's exit may follow the end of its connections. */
const EXIT_WAIT_MS = 1_000
const TAIL_BYTES = 4 * 1024
/** The log of all starts together; a larger one is truncated. */
const LOG_BYTES_MAX = 4 * 1024 * 1024

export class ExampleHost {
  readonly #child: ChildProcess
  readonly #folder: ExampleFolder
  /** Resolves with the host's exit code; 70 when a signal ended it. */
  readonly ended: Promise<number>
  #launch: Launch | undefined
  #isEnded = false
  /** The offset of this start's first line in the log. */
  readonly #logFrom: number

  /** @param program the file of the switchyard command */
  constructor(program: string, folder: ExampleFolder) {
    this.#folder = folder
    // Append, because another host in the same folder may be writing to the file.
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | constants.O_NOFOLLOW
    const log = openSync(folder.hostLog, flags, 0o600)
    if (fstatSync(log).size > LOG_BYTES_MAX) ftruncateSync(log)
    this.#logFrom = fstatSync(log).size
    const args = [program, 'serve', '--data-dir', folder.dataDir, '--log-format', 'human', '--end-with-stdin']
    this.#child = spawn(process.execPath, args, { stdio: ['pipe', log, log], detached: true })
    this.#child.stdin?.on('error', () => {})
    closeSync(log)
    this.ended = new Promise((resolve) => {
      this.#child.on('error', () => resolve(EXIT.broken))
      this.#child.on('exit', (code) => {
        this.#isEnded = true
        resolve(code ?? EXIT.broken)
      })
    })
  }

  /** Waits for the listeners. Throws with the end of the log when the host ends before. */
  async waitForLaunch(): Promise<Launch> {
    const until = performance.now() + LISTENING_MS_MAX
    while (!this.#isEnded && performance.now() < until) {
      const launch = await readLaunch(this.#folder.dataDir)
      if (launch?.pid === this.#child.pid) {
        this.#launch = launch
        return launch as Launch
      }
      await pause(POLL_MS)
    }
    const code = this.#isEnded ? await this.ended : EXIT.broken
    throw new ExitError(
      code === 0 ? EXIT.broken : code,
      `the host did not open its listeners:\n${await this.readLogTail()}`,
    )
  }

  health(): Promise<HealthResponse> {
    return this.#request('/api/health') as Promise<HealthResponse>
  }

  events(runId: string): Promise<readonly RunEvent[]> {
    return this.#request(`/api/runs/${encodeURIComponent(runId)}/events`) as Promise<readonly RunEvent[]>
  }

  /** The error of an unreachable host: the end of its log when it has ended, `otherwise` when it is running. */
  async explainEnd(otherwise: string): Promise<ExitError> {
    const soon = pause(EXIT_WAIT_MS, undefined, { ref: false })
    const code = await Promise.race([this.ended, soon])
    if (code === undefined) return new ExitError(EXIT.broken, otherwise)
    return new ExitError(
      code === 0 ? EXIT.broken : code,
      `the host ended by itself:\n${await this.readLogTail()}`,
    )
  }

  /** The last lines of the host's log. */
  async readLogTail(): Promise<string> {
    const file = await open(this.#folder.hostLog, 'r').catch(() => undefined)
    if (file === undefined) return ''
    try {
      const { size } = await file.stat()
      const own = Math.max(0, size - this.#logFrom)
      const bytes = Buffer.alloc(Math.min(own, TAIL_BYTES))
      await file.read(bytes, 0, bytes.length, size - bytes.length)
      const text = bytes.toString()
      return own > TAIL_BYTES ? text.slice(text.indexOf('\n') + 1).trimEnd() : text.trimEnd()
    } finally {
      await file.close()
    }
  }

  /** Stops the host, by force when it does not end in time. */
  async stop(): Promise<number> {
    if (!this.#isEnded) this.#child.kill('SIGTERM')
    const giveUp = new AbortController()
    const late = pause(STOP_MS_MAX, undefined, { signal: giveUp.signal }).then(
      () => void this.#child.kill('SIGKILL'),
      () => {},
    )
    const code = await this.ended
    giveUp.abort()
    await late
    return code
  }

  async #request(path: string): Promise<unknown> {
    if (this.#launch === undefined) throw new Error('a request was sent before the listeners are open')
    const { url, token } = this.#launch
    const address = () => ({ url, token })
    const asked = requestText({ address, send: sendByNode, dial: dialByNode }, { method: 'GET', path }, LIMIT)
    const { text } = await asked.catch(async (error: unknown) => {
      if (error instanceof HostRefusal) throw refusedError(`the host answered ${error.status} to ${path}`)
      throw await this.explainEnd(`the host does not answer (${messageOf(error)})`)
    })
    return JSON.parse(text)
  }
}

/** Returns undefined when the launch file does not exist or is incomplete; the caller tries again. */
async function readLaunch(dataDir: string): Promise<Launch | undefined> {
  try {
    return JSON.parse(await readFile(join(dataDir, 'launch.json'), 'utf8')) as Launch
  } catch {
    return undefined
  }
}
