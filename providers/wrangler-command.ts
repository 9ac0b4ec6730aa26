/** The command `wrangler` of this machine, as it is started for the service: quietly, and gone when the service goes. */
import type { Clock } from '../core/ports.ts'
import {
  type Environment,
  environmentFor,
  type ProgramEnd,
  type ProgramOrder,
  programOnPath,
  type RunningProgram,
  startProgram,
} from './run-program.ts'

export interface CommandParts {
  readonly environment: Environment
  readonly clock: Pick<Clock, 'after'>
  readonly inheritable?: () => readonly number[]
}

type Order = Pick<ProgramOrder, 'program' | 'args' | 'folder' | 'msMax'>

/** Its own seams, and what it opens a browser with. */
const OF_WRANGLER = /^(CLOUDFLARE_[A-Z_]+|DISPLAY|WAYLAND_DISPLAY|BROWSER|DBUS_SESSION_BUS_ADDRESS)$/
const QUIET = { WRANGLER_SEND_METRICS: 'false', WRANGLER_SEND_ERROR_REPORTS: 'false', NO_COLOR: '1' }
/** Keeps it from asking questions; a login is one. */
const UNATTENDED = { CI: '1' }

export class WranglerCommand {
  readonly #parts: CommandParts
  readonly #running = new Set<RunningProgram>()
  #isStopped = false

  constructor(parts: CommandParts) {
    this.#parts = parts
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  find(): Promise<string | undefined> {
    return programOnPath('wrangler', this.#parts.environment.PATH)
  }

  ask(order: Order): Promise<ProgramEnd> {
    return this.start(order, UNATTENDED).ended
  }

  start(order: Order, more: Readonly<Record<string, string>> = {}): RunningProgram {
    const { environment, clock, inheritable } = this.#parts
    const own = { ...environmentFor(environment, OF_WRANGLER), ...QUIET, ...more }
    const covered = inheritable === undefined ? {} : { inheritable }
    const running = startProgram({ ...order, environment: own, ...covered }, clock)
    this.#running.add(running)
    void running.ended.then(() => this.#running.delete(running))
    // It may have been stopped while the command was being looked for.
    if (this.#isStopped) running.kill()
    return running
  }

  stop(): void {
    this.#isStopped = true
    for (const running of this.#running) running.kill()
  }
}
