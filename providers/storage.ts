/**
 * The bucket where artifacts of runs are shown from: Cloudflare R2, through its owner's own `wrangler`.
 *
 * The command holds the login, so nothing of it is kept here. It is asked anew each time, from an empty folder, for a
 * project's settings in the folder it stands in would count. It writes to a folder of this machine and calls that a
 * success unless told otherwise, so only its own word that the place was remote is believed.
 */
import type { Bucket, BucketLook, UploadOrder } from '../core/neighbours.ts'
import type { Clock, Log } from '../core/ports.ts'
import { type Answer, type No, no, yes } from '../core/refusal.ts'
import {
  PROGRAM_MS_MAX,
  STORAGE_LOGIN_MS_MAX,
  UPLOAD_MS_MAX,
  UPLOADS_WAITING_MAX,
} from '../protocol/limits.ts'
import {
  type Environment,
  environmentFor,
  type ProgramEnd,
  programOnPath,
  type RunningProgram,
  startProgram,
} from './program.ts'
import { spooled, withFolder } from './spool.ts'
import { identityIn, loginPageIn, uploadAnswer, uploadProblem, whoIsOld } from './wrangler-words.ts'

export interface WranglerParts {
  /** This machine's, as its person's programs have it. */
  readonly environment: Environment
  readonly clock: Clock
  readonly log: Log
  /** Where files lie while they are uploaded. */
  readonly tempFolder: string
  /** Descriptors of this process that a child would get, and must not. */
  readonly inheritable?: () => readonly number[]
}

export function wranglerBucket(parts: WranglerParts): Bucket {
  return new WranglerBucket(parts)
}

/** Its own seams, and what it opens a browser with. */
const OF_WRANGLER = /^(CLOUDFLARE_[A-Z_]+|DISPLAY|WAYLAND_DISPLAY|BROWSER|DBUS_SESSION_BUS_ADDRESS)$/
const QUIET = { WRANGLER_SEND_METRICS: 'false', WRANGLER_SEND_ERROR_REPORTS: 'false', NO_COLOR: '1' }
/** How long a login may take to say which page it has opened. */
const PAGE_MS_MAX = 10_000
const PAGE_LOOK_MS = 50

const NOT_INSTALLED =
  'wrangler is not installed on this machine; install it with: npm install --global wrangler'
const STOPPED = no('unavailable', 'the service is stopping')

class WranglerBucket implements Bucket {
  readonly #parts: WranglerParts
  readonly #running = new Set<RunningProgram>()
  #looking: Promise<BucketLook> | undefined
  #login: Promise<RunningProgram> | undefined
  #uploads: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #stopped = false

  constructor(parts: WranglerParts) {
    this.#parts = parts
  }

  /** Whoever asks while somebody is asking gets the same answer. */
  look(): Promise<BucketLook> {
    this.#looking ??= this.#look()
      .catch((error: unknown) => {
        this.#noFolder(error)
        return UNKNOWN
      })
      .finally(() => {
        this.#looking = undefined
      })
    return this.#looking
  }

  async login(): Promise<Answer<string>> {
    if (this.#stopped) return STOPPED
    const program = await this.#program()
    if (program === undefined) return no('invalid', NOT_INSTALLED)
    // A second one would find its port taken, and the person two pages of which only one works.
    this.#login ??= this.#startLogin(program)
    try {
      return yes(await this.#invitation(await this.#login))
    } catch (error) {
      return this.#noFolder(error)
    }
  }

  async upload(order: UploadOrder): Promise<Answer<void>> {
    const problem = uploadProblem(order)
    if (problem !== undefined) return no('invalid', problem)
    if (this.#waiting >= UPLOADS_WAITING_MAX)
      return no('unavailable', 'too many uploads wait; try again later')
    this.#waiting += 1
    // One at a time: each takes a process of its own that is larger than all of this one.
    const mine = this.#uploads.then(() => this.#upload(order))
    this.#uploads = mine.catch(() => {})
    return mine.finally(() => {
      this.#waiting -= 1
    })
  }

  stop(): void {
    this.#stopped = true
    for (const running of this.#running) running.kill()
  }

  // ---- looking -----------------------------------------------------------------------------------------------------

  async #look(): Promise<BucketLook> {
    const program = this.#stopped ? undefined : await this.#program()
    if (program === undefined) return ABSENT
    const [version, who] = await withFolder(this.#parts.tempFolder, (folder) =>
      Promise.all([
        this.#ask(program, ['--version'], folder, PROGRAM_MS_MAX),
        this.#ask(program, ['whoami', '--json'], folder, PROGRAM_MS_MAX),
      ]),
    )
    if (version.is !== 'ended' || version.code !== 0) return ABSENT
    const known = who.is === 'ended' && whoIsOld(who) ? await this.#askOld(program) : who
    const account = known.is === 'ended' ? identityIn(known, this.#parts.environment) : undefined
    if (account === undefined) return UNKNOWN
    return { installed: true, loggedIn: true, ...(account === '' ? {} : { account }) }
  }

  /** Of the time before it could answer as JSON; its exit code says nothing. */
  #askOld(program: string): Promise<ProgramEnd> {
    return withFolder(this.#parts.tempFolder, (folder) =>
      this.#ask(program, ['whoami'], folder, PROGRAM_MS_MAX),
    )
  }

  // ---- logging in --------------------------------------------------------------------------------------------------

  /** Resolves once it is started. */
  #startLogin(program: string): Promise<RunningProgram> {
    const { tempFolder, log } = this.#parts
    return new Promise((started, failed) => {
      const work = withFolder(tempFolder, async (folder) => {
        const login = this.#start(program, ['login'], folder, STORAGE_LOGIN_MS_MAX, {})
        started(login)
        const end = await login.ended
        const code = end.is === 'ended' ? end.code : undefined
        log.info({ end: end.is, ...(code === undefined ? {} : { code }) }, 'the login of wrangler is over')
      })
      void work.catch(failed).finally(() => {
        this.#login = undefined
      })
    })
  }

  /** The page is shown as well as opened: this machine may have no browser, or nobody before it. */
  async #invitation(login: RunningProgram): Promise<string> {
    const { clock } = this.#parts
    const until = clock.monotonic() + PAGE_MS_MAX
    let isOver = false
    void login.ended.then(() => {
      isOver = true
    })
    while (loginPageIn(login.said()) === undefined && !isOver && clock.monotonic() < until)
      await new Promise<void>((resolve) => clock.after(PAGE_LOOK_MS, resolve))
    const page = loginPageIn(login.said())
    const minutes = STORAGE_LOGIN_MS_MAX / 60_000
    if (page === undefined) {
      return `wrangler login was started on this machine; confirm it in the browser that it opens there within ${minutes} minutes`
    }
    return `confirm the login within ${minutes} minutes on the page that wrangler opens on this machine, or open it yourself: ${page} (from another machine, first forward its answer: ssh -L 8976:localhost:8976)`
  }

  // ---- uploading ---------------------------------------------------------------------------------------------------

  async #upload(order: UploadOrder): Promise<Answer<void>> {
    if (this.#stopped) return STOPPED
    const program = await this.#program()
    if (program === undefined) return no('invalid', NOT_INSTALLED)
    const work = withFolder<Answer<void>>(this.#parts.tempFolder, async (folder) => {
      const file = await spooled(folder, order)
      if (!file.ok) return file
      const { bucket, key, contentType } = order
      const place = ['r2', 'object', 'put', `${bucket}/${key}`]
      const args = [...place, '--file', file.value.path, '--content-type', contentType, '--remote']
      const end = await this.#ask(program, args, file.value.emptyFolder, UPLOAD_MS_MAX)
      return this.#stopped ? STOPPED : uploadAnswer(end, this.#parts.environment)
    })
    return work.catch((error: unknown) => this.#noFolder(error))
  }

  #noFolder(error: unknown): No {
    this.#parts.log.warn({ err: error }, 'there is no folder for what wrangler works with')
    return no('failed', `no folder for temporary files could be made in ${this.#parts.tempFolder}`)
  }

  // ---- the command -------------------------------------------------------------------------------------------------

  #program(): Promise<string | undefined> {
    return programOnPath('wrangler', this.#parts.environment.PATH)
  }

  /** `CI` keeps it from asking questions; a login is one. */
  #ask(program: string, args: readonly string[], folder: string, msMax: number): Promise<ProgramEnd> {
    return this.#start(program, args, folder, msMax, { CI: '1' }).ended
  }

  #start(
    program: string,
    args: readonly string[],
    folder: string,
    msMax: number,
    more: Readonly<Record<string, string>>,
  ): RunningProgram {
    const { environment, clock, inheritable } = this.#parts
    const own = { ...environmentFor(environment, OF_WRANGLER), ...QUIET, ...more }
    const covered = inheritable === undefined ? {} : { inheritable }
    const running = startProgram({ program, args, folder, environment: own, msMax, ...covered }, clock)
    this.#running.add(running)
    void running.ended.then(() => this.#running.delete(running))
    // It may have been stopped while the command was being looked for.
    if (this.#stopped) running.kill()
    return running
  }
}

const ABSENT: BucketLook = { installed: false, loggedIn: false }
/** It is there, and could not be asked. */
const UNKNOWN: BucketLook = { installed: true, loggedIn: false }
