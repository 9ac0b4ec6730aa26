/**
 * The bucket that serves the artifacts of runs: Cloudflare R2, through the `wrangler` command of the machine's user.
 *
 * A token of the configuration comes with each call; without one wrangler keeps the login. Every command runs in an
 * empty folder, because wrangler would apply project settings found in its working directory. Without `--remote`
 * wrangler writes to a local folder and reports success, so an upload counts only when the output states that the
 * location was remote.
 */
import { type FileHandle, mkdir, mkdtemp, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Bucket, BucketState, UploadRequest } from '../core/ports/bucket.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import { no, type Refused, type Result, yes } from '../core/result.ts'
import { PROGRAM_MS_MAX, STORAGE_LOGIN_MS_MAX } from '../protocol/limits.ts'
import { codeOf } from '../protocol/message-of.ts'
import type { ProgramEnvironment, ProgramResult, RunningProgram } from './run-program.ts'
import {
  accountIn,
  isJsonUnsupported,
  loginPageIn,
  readLoginResult,
  readUploadResult,
  uploadProblem,
  WranglerCommand,
} from './wrangler-command.ts'

export const UPLOAD_MS_MAX = 10 * 60_000
/** Uploads that may be queued. */
const UPLOADS_WAITING_MAX = 1_000

export interface WranglerBucketPorts {
  /** The environment of this process. */
  readonly environment: ProgramEnvironment
  readonly clock: Clock
  readonly log: Log
  /** The folder for files during their upload; used by this process alone. */
  readonly tempFolder: string
  /** Descriptors of this process that a child would inherit and must not. */
  readonly inheritable?: () => readonly number[]
}

export function createWranglerBucket(ports: WranglerBucketPorts): Bucket {
  return new WranglerBucket(ports)
}

/** How long a login may take to print the address of its page. */
const LOGIN_PAGE_MS_MAX = 10_000
const LOGIN_PAGE_POLL_MS = 50

const NOT_INSTALLED =
  'wrangler is not installed on this machine; install it with: npm install --global wrangler'
const TOKEN_REFUSED = 'Cloudflare does not know the token, or it may not read its account'
const STOPPED_REFUSAL = no('unavailable', 'the service is stopping')

class WranglerBucket implements Bucket {
  readonly #ports: WranglerBucketPorts
  readonly #wrangler: WranglerCommand
  readonly #tempFolderCleaned: Promise<void>
  #pendingState: { readonly token: string; readonly state: Promise<BucketState> } | undefined
  #login: Promise<RunningProgram> | undefined
  #lastUpload: Promise<unknown> = Promise.resolve()
  #uploadsWaiting = 0

  constructor(ports: WranglerBucketPorts) {
    this.#ports = ports
    this.#wrangler = new WranglerCommand(ports)
    this.#tempFolderCleaned = removeLeftovers(ports.tempFolder)
  }

  /** Calls during a running check share its result. */
  status(token = ''): Promise<BucketState> {
    if (this.#pendingState?.token === token) return this.#pendingState.state
    const state = this.#readState(token)
      .catch((error: unknown) => {
        this.#folderRefusal(error)
        return UNKNOWN_STATE
      })
      .finally(() => {
        if (this.#pendingState?.state === state) this.#pendingState = undefined
      })
    this.#pendingState = { token, state }
    return state
  }

  async login(): Promise<Result<string>> {
    if (this.#wrangler.isStopped) return STOPPED_REFUSAL
    const program = await this.#wrangler.find()
    if (program === undefined) return no('invalid', NOT_INSTALLED)
    // A second login would find its port taken, and only the page of the first would work.
    this.#login ??= this.#startLogin(program)
    try {
      return await this.#loginInstruction(await this.#login)
    } catch (error) {
      return this.#folderRefusal(error)
    }
  }

  async upload(request: UploadRequest): Promise<Result<void>> {
    const problem = uploadProblem(request)
    if (problem !== undefined) return no('invalid', problem)
    if (this.#uploadsWaiting >= UPLOADS_WAITING_MAX)
      return no('unavailable', 'too many uploads wait; try again later')
    this.#uploadsWaiting += 1
    // Uploads run one after another, because each wrangler process needs more memory than this process.
    const result = this.#lastUpload.then(() => this.#uploadNow(request))
    this.#lastUpload = result.catch(() => {})
    return result.finally(() => {
      this.#uploadsWaiting -= 1
    })
  }

  stop(): void {
    this.#wrangler.stop()
  }

  // ---- status ------------------------------------------------------------------------------------------------------

  async check(token: string): Promise<Result<string>> {
    if (this.#wrangler.isStopped) return STOPPED_REFUSAL
    const { installed, loggedIn, account } = await this.#readState(token)
    if (!installed) return no('invalid', NOT_INSTALLED)
    return loggedIn ? yes(account ?? 'a token') : no('unauthorized', TOKEN_REFUSED)
  }

  async #readState(token: string): Promise<BucketState> {
    const program = this.#wrangler.isStopped ? undefined : await this.#wrangler.find()
    if (program === undefined) return NOT_INSTALLED_STATE
    const ask = (...args: readonly string[]): Promise<ProgramResult> =>
      this.#inTempFolder((folder) =>
        this.#wrangler.runUnattended({ program, args, folder, msMax: PROGRAM_MS_MAX, token }),
      )
    const [version, whoami] = await Promise.all([ask('--version'), ask('whoami', '--json')])
    if (version.is !== 'ended' || version.code !== 0) return NOT_INSTALLED_STATE
    // Old versions cannot print JSON, and their exit code means nothing.
    const identity = whoami.is === 'ended' && isJsonUnsupported(whoami) ? await ask('whoami') : whoami
    const environment = this.#wrangler.environmentWith(token)
    const account = identity.is === 'ended' ? accountIn(identity, environment) : undefined
    if (account === undefined) return UNKNOWN_STATE
    return { installed: true, loggedIn: true, ...(account === '' ? {} : { account }) }
  }

  // ---- logging in --------------------------------------------------------------------------------------------------

  /** Resolves once the login command is started. */
  #startLogin(program: string): Promise<RunningProgram> {
    const { log } = this.#ports
    return new Promise((resolveStarted, reject) => {
      const work = this.#inTempFolder(async (folder) => {
        const login = this.#wrangler.start({ program, args: ['login'], folder, msMax: STORAGE_LOGIN_MS_MAX })
        resolveStarted(login)
        const result = await login.ended
        const code = result.is === 'ended' ? result.code : undefined
        log.info({ end: result.is, ...(code === undefined ? {} : { code }) }, 'the wrangler login ended')
      })
      void work.catch(reject).finally(() => {
        this.#login = undefined
      })
    })
  }

  /** Waits for the page's address. The dashboard shows it too, because this machine may have no browser or no user. */
  async #loginInstruction(login: RunningProgram): Promise<Result<string>> {
    const { clock, environment } = this.#ports
    const until = clock.monotonic() + LOGIN_PAGE_MS_MAX
    let result: ProgramResult | undefined
    void login.ended.then((ended) => {
      result = ended
    })
    while (
      loginPageIn(login.outputSoFar()) === undefined &&
      result === undefined &&
      clock.monotonic() < until
    )
      await new Promise<void>((resolve) => clock.after(LOGIN_PAGE_POLL_MS, resolve))
    return this.#wrangler.isStopped
      ? STOPPED_REFUSAL
      : readLoginResult(login.outputSoFar(), result, environment)
  }

  // ---- uploading ---------------------------------------------------------------------------------------------------

  async #uploadNow(request: UploadRequest): Promise<Result<void>> {
    if (this.#wrangler.isStopped) return STOPPED_REFUSAL
    const program = await this.#wrangler.find()
    if (program === undefined) return no('invalid', NOT_INSTALLED)
    const work = this.#inTempFolder<Result<void>>(async (folder) => {
      const file = await writeTempFile(folder, request)
      if (!file.ok) return file
      const { bucket, key, contentType, token = '' } = request
      const command = ['r2', 'object', 'put', `${bucket}/${key}`]
      const args = [...command, '--file', file.value.path, '--content-type', contentType, '--remote']
      const result = await this.#wrangler.runUnattended({
        program,
        args,
        folder: file.value.emptyFolder,
        msMax: UPLOAD_MS_MAX,
        token,
      })
      return this.#wrangler.isStopped
        ? STOPPED_REFUSAL
        : readUploadResult(result, this.#wrangler.environmentWith(token))
    })
    return work.catch((error: unknown) => this.#folderRefusal(error))
  }

  async #inTempFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
    await this.#tempFolderCleaned
    return withTempFolder(this.#ports.tempFolder, work)
  }

  #folderRefusal(error: unknown): Refused {
    this.#ports.log.warn({ err: error }, 'no temporary folder for wrangler could be made')
    return no('failed', `no folder for temporary files could be made in ${this.#ports.tempFolder}`)
  }
}

const NOT_INSTALLED_STATE: BucketState = { installed: false, loggedIn: false }
/** The state when wrangler is installed but gives no usable answer. */
const UNKNOWN_STATE: BucketState = { installed: true, loggedIn: false }

// ---- temporary files -----------------------------------------------------------------------------------------------

interface TempFile {
  readonly path: string
  /** An empty folder as the working directory for a program that reads settings from there. */
  readonly emptyFolder: string
}

interface TempFileSource {
  readonly size: number
  read(): AsyncIterable<Uint8Array>
}

const PREFIX = 'switchyard-bucket-'

/** Removes folders that a killed process left behind. Call this before the first use of `parent`, as its only user. */
async function removeLeftovers(parent: string): Promise<void> {
  const names = await readdir(parent).catch(() => [])
  await Promise.all(names.filter((name) => name.startsWith(PREFIX)).map((name) => remove(join(parent, name))))
}

/** Makes a folder for the duration of `work` and removes it with its contents. */
async function withTempFolder<T>(parent: string, work: (folder: string) => Promise<T>): Promise<T> {
  await mkdir(parent, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(parent, PREFIX))
  try {
    return await work(folder)
  } finally {
    await remove(folder)
  }
}

async function remove(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
}

/** Writes the source into a file. Refuses unless its length is exactly `size` bytes. */
async function writeTempFile(folder: string, { size, read }: TempFileSource): Promise<Result<TempFile>> {
  const path = join(folder, 'object')
  const emptyFolder = join(folder, 'empty')
  let file: FileHandle | undefined
  try {
    await mkdir(emptyFolder, { mode: 0o700 })
    file = await open(path, 'wx', 0o600)
    let bytes = 0
    for await (const chunk of read()) {
      bytes += chunk.byteLength
      if (bytes > size) break
      await file.writeFile(chunk)
    }
    if (bytes !== size) return no('invalid', 'the file does not have the announced length')
    return yes({ path, emptyFolder })
  } catch (error) {
    return no('failed', `the file could not be read or copied for the upload (${codeOf(error) ?? 'no code'})`)
  } finally {
    await file?.close()
  }
}
