/** WranglerCommand starts this machine's `wrangler` without reports or colors, and kills it when the service stops. */
import type { Clock } from '../core/ports.ts'
import {
  environmentFor,
  type ProgramEnvironment,
  type ProgramOptions,
  type ProgramResult,
  programOnPath,
  type RunningProgram,
  startProgram,
} from './run-program.ts'

export interface WranglerCommandPorts {
  readonly environment: ProgramEnvironment
  readonly clock: Pick<Clock, 'after'>
  readonly inheritable?: () => readonly number[]
}

type WranglerRun = Pick<ProgramOptions, 'program' | 'args' | 'folder' | 'msMax'>

/** Wrangler's own variables and those for opening a browser. */
const WRANGLER_VARIABLES = /^(CLOUDFLARE_[A-Z_]+|DISPLAY|WAYLAND_DISPLAY|BROWSER|DBUS_SESSION_BUS_ADDRESS)$/
const QUIET_VARIABLES = {
  WRANGLER_SEND_METRICS: 'false',
  WRANGLER_SEND_ERROR_REPORTS: 'false',
  NO_COLOR: '1',
}
/** Keeps wrangler from asking questions. A login runs without it because a login is a question. */
const UNATTENDED_VARIABLES = { CI: '1' }

export class WranglerCommand {
  readonly #ports: WranglerCommandPorts
  readonly #running = new Set<RunningProgram>()
  #isStopped = false

  constructor(ports: WranglerCommandPorts) {
    this.#ports = ports
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  find(): Promise<string | undefined> {
    return programOnPath('wrangler', this.#ports.environment.PATH)
  }

  runUnattended(run: WranglerRun): Promise<ProgramResult> {
    return this.start(run, UNATTENDED_VARIABLES).ended
  }

  start(run: WranglerRun, additional: Readonly<Record<string, string>> = {}): RunningProgram {
    const { environment, clock, inheritable } = this.#ports
    const variables = {
      ...environmentFor(environment, WRANGLER_VARIABLES),
      ...QUIET_VARIABLES,
      ...additional,
    }
    const descriptors = inheritable === undefined ? {} : { inheritable }
    const running = startProgram({ ...run, environment: variables, ...descriptors }, clock)
    this.#running.add(running)
    void running.ended.then(() => this.#running.delete(running))
    // The service may have stopped while the command was searched on PATH.
    if (this.#isStopped) running.kill()
    return running
  }

  stop(): void {
    this.#isStopped = true
    for (const running of this.#running) running.kill()
  }
}
