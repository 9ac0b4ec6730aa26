/**
 * The bucket where artifacts of runs are shown from: Cloudflare R2, through its owner's own `wrangler`.
 *
 * The command holds the login, so nothing of it is kept here. It is asked anew each time, from an empty folder, for a
 * project's settings in the folder it stands in would count. It writes to a folder of this machine and calls that a
 * success unless told otherwise, so only its own word that the place was remote is believed.
 */

import type { Clock, Log } from '../core/ports.ts'
import type { Bucket, BucketLook, UploadOrder } from '../core/provider-ports.ts'
import { no, type Refused, type Result } from '../core/result.ts'
import {
  PROGRAM_MS_MAX,
  STORAGE_LOGIN_MS_MAX,
  UPLOAD_MS_MAX,
  UPLOADS_WAITING_MAX,
} from '../protocol/limits.ts'
import type { Environment, ProgramEnd, RunningProgram } from './run-program.ts'
import { spooled, sweep, withFolder } from './temp-file.ts'
import { WranglerCommand } from './wrangler-command.ts'
import {
  identityIn,
  loginAnswer,
  loginPageIn,
  uploadAnswer,
  uploadProblem,
  whoIsOld,
} from './wrangler-output.ts'

export interface WranglerParts {
  /** This machine's, as its person's programs have it. */
  readonly environment: Environment
  readonly clock: Clock
  readonly log: Log
  /** Where files lie while they are uploaded; of this process alone. */
  readonly tempFolder: string
  /** Descriptors of this process that a child would get, and must not. */
  readonly inheritable?: () => readonly number[]
}

export function wranglerBucket(parts: WranglerParts): Bucket {
  return new WranglerBucket(parts)
}

/** How long a login may take to say which page it has opened. */
const PAGE_MS_MAX = 10_000
const PAGE_LOOK_MS = 50

const NOT_INSTALLED =
  'wrangler is not installed on this machine; install it with: npm install --global wrangler'
const STOPPED = no('unavailable', 'the service is stopping')

class WranglerBucket implements Bucket {
  readonly #parts: WranglerParts
  readonly #wrangler: WranglerCommand
  readonly #swept: Promise<void>
  #looking: Promise<BucketLook> | undefined
  #login: Promise<RunningProgram> | undefined
  #uploads: Promise<unknown> = Promise.resolve()
  #waiting = 0

  constructor(parts: WranglerParts) {
    this.#parts = parts
    this.#wrangler = new WranglerCommand(parts)
    this.#swept = sweep(parts.tempFolder)
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

  async login(): Promise<Result<string>> {
    if (this.#wrangler.isStopped) return STOPPED
    const program = await this.#wrangler.find()
    if (program === undefined) return no('invalid', NOT_INSTALLED)
    // A second one would find its port taken, and the person two pages of which only one works.
    this.#login ??= this.#startLogin(program)
    try {
      return await this.#invitation(await this.#login)
    } catch (error) {
      return this.#noFolder(error)
    }
  }

  async upload(order: UploadOrder): Promise<Result<void>> {
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
    this.#wrangler.stop()
  }

  // ---- looking -----------------------------------------------------------------------------------------------------

  async #look(): Promise<BucketLook> {
    const program = this.#wrangler.isStopped ? undefined : await this.#wrangler.find()
    if (program === undefined) return ABSENT
    const [version, who] = await this.#inFolder((folder) =>
      Promise.all([
        this.#wrangler.ask({ program, args: ['--version'], folder, msMax: PROGRAM_MS_MAX }),
        this.#wrangler.ask({ program, args: ['whoami', '--json'], folder, msMax: PROGRAM_MS_MAX }),
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
    return this.#inFolder((folder) =>
      this.#wrangler.ask({ program, args: ['whoami'], folder, msMax: PROGRAM_MS_MAX }),
    )
  }

  // ---- logging in --------------------------------------------------------------------------------------------------

  /** Resolves once it is started. */
  #startLogin(program: string): Promise<RunningProgram> {
    const { log } = this.#parts
    return new Promise((started, failed) => {
      const work = this.#inFolder(async (folder) => {
        const login = this.#wrangler.start({ program, args: ['login'], folder, msMax: STORAGE_LOGIN_MS_MAX })
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
  async #invitation(login: RunningProgram): Promise<Result<string>> {
    const { clock, environment } = this.#parts
    const until = clock.monotonic() + PAGE_MS_MAX
    let end: ProgramEnd | undefined
    void login.ended.then((ended) => {
      end = ended
    })
    while (loginPageIn(login.said()) === undefined && end === undefined && clock.monotonic() < until)
      await new Promise<void>((resolve) => clock.after(PAGE_LOOK_MS, resolve))
    return this.#wrangler.isStopped ? STOPPED : loginAnswer(login.said(), end, environment)
  }

  // ---- uploading ---------------------------------------------------------------------------------------------------

  async #upload(order: UploadOrder): Promise<Result<void>> {
    if (this.#wrangler.isStopped) return STOPPED
    const program = await this.#wrangler.find()
    if (program === undefined) return no('invalid', NOT_INSTALLED)
    const work = this.#inFolder<Result<void>>(async (folder) => {
      const file = await spooled(folder, order)
      if (!file.ok) return file
      const { bucket, key, contentType } = order
      const place = ['r2', 'object', 'put', `${bucket}/${key}`]
      const args = [...place, '--file', file.value.path, '--content-type', contentType, '--remote']
      const end = await this.#wrangler.ask({
        program,
        args,
        folder: file.value.emptyFolder,
        msMax: UPLOAD_MS_MAX,
      })
      return this.#wrangler.isStopped ? STOPPED : uploadAnswer(end, this.#parts.environment)
    })
    return work.catch((error: unknown) => this.#noFolder(error))
  }

  async #inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
    await this.#swept
    return withFolder(this.#parts.tempFolder, work)
  }

  #noFolder(error: unknown): Refused {
    this.#parts.log.warn({ err: error }, 'there is no folder for what wrangler works with')
    return no('failed', `no folder for temporary files could be made in ${this.#parts.tempFolder}`)
  }
}

const ABSENT: BucketLook = { installed: false, loggedIn: false }
/** It is there, and could not be asked. */
const UNKNOWN: BucketLook = { installed: true, loggedIn: false }
