/** WranglerCommand starts this machine's `wrangler` without reports or colors, and kills it when the service stops. */

import type { UploadRequest } from '../core/ports/bucket.ts'
import type { Clock } from '../core/ports/clock.ts'
import { no, type Result, yes } from '../core/result.ts'
import { NAME_CHARS_MAX, STORAGE_LOGIN_MS_MAX, URL_CHARS_MAX } from '../protocol/limits.ts'
import { parseJson } from '../protocol/parse.ts'
import { printable } from '../protocol/schema-errors.ts'
import {
  environmentFor,
  type ProgramEnvironment,
  type ProgramOptions,
  type ProgramResult,
  programOnPath,
  type RunningProgram,
  startProgram,
} from './run-program.ts'

/** Largest file that the bucket's program uploads. */
export const UPLOAD_BYTES_MAX = 300 * 1024 * 1024
const UPLOAD_KEY_BYTES_MAX = 1_024

export interface WranglerCommandPorts {
  readonly environment: ProgramEnvironment
  readonly clock: Pick<Clock, 'after'>
  readonly inheritable?: () => readonly number[]
}

interface WranglerRun extends Pick<ProgramOptions, 'program' | 'args' | 'folder' | 'msMax'> {
  /** In place of the login of the machine's user. */
  readonly token?: string
}

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

  environmentWith(token = ''): ProgramEnvironment {
    const { environment } = this.#ports
    if (token === '') return environment
    // A key of the surroundings would count before a token.
    const { CLOUDFLARE_API_KEY: _, CLOUDFLARE_EMAIL: __, ...others } = environment
    return { ...others, CLOUDFLARE_API_TOKEN: token }
  }

  start({ token, ...run }: WranglerRun, additional: Readonly<Record<string, string>> = {}): RunningProgram {
    const { clock, inheritable } = this.#ports
    const environment = this.environmentWith(token)
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

type EndedProgram = Extract<ProgramResult, { is: 'ended' }>

const BUCKET_NAME = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/
const CONTENT_TYPE = /^[\w.+-]{1,100}\/[\w.+-]{1,100}(; ?[\w-]{1,40}=[\w.+-]{1,100})?$/
const ERROR_LINE_CHARS_MAX = 300

// ---- uploads -------------------------------------------------------------------------------------------------------

/**
 * These functions check wrangler's arguments and parse its output.
 *
 * The output is written for people and changes between versions; unrecognized output counts as a failure.
 *
 * Returns why the upload can never succeed. Accepted values cannot act as an option or as another location.
 */
export function uploadProblem({ bucket, key, contentType, size }: UploadRequest): string | undefined {
  if (!BUCKET_NAME.test(bucket)) {
    return 'storage.bucket: must be the name of a bucket: 3 to 63 lowercase letters, digits and -'
  }
  const isKey = key.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
  if (!isKey || printable(key) !== key)
    return 'the key of an upload has a segment that is not allowed in an address'
  if (Buffer.byteLength(key) > UPLOAD_KEY_BYTES_MAX)
    return `the key of an upload is longer than ${UPLOAD_KEY_BYTES_MAX} bytes`
  if (size > UPLOAD_BYTES_MAX) return `the file is larger than ${UPLOAD_BYTES_MAX / 1024 / 1024} MiB`
  return CONTENT_TYPE.test(contentType) ? undefined : 'the content type of an upload is invalid'
}

/** @param environment holds the keys that must not appear in the result */
export function readUploadResult(result: ProgramResult, environment: ProgramEnvironment): Result<void> {
  if (result.is === 'late') return no('unavailable', 'the upload took too long; try again later')
  if (result.is === 'unstartable') return no('failed', `wrangler could not be started (${result.reason})`)
  const { code, out, err } = result
  if (code === 0 && /^\W*resource location: remote\b/im.test(out)) return yes(undefined)
  if (code === 0) return no('failed', 'wrangler did not confirm that it wrote to the bucket; update wrangler')
  return uploadFailure(redactKeys(`${err}\n${out}`, environment))
}

/** Recognizes lasting reasons, because a person has to act on them. */
function uploadFailure(text: string): Result<void> {
  if (
    /authentication error|CLOUDFLARE_API_TOKEN|not (authenticated|logged in)|code: 1000[01]\b/i.test(text)
  ) {
    return no(
      'unauthorized',
      'wrangler is not logged in, or may not write to the bucket; run: wrangler login',
    )
  }
  if (/bucket does not exist|code: 10006\b/i.test(text)) {
    return no('invalid', 'the account has no bucket of this name; correct storage.bucket or create it')
  }
  if (/CLOUDFLARE_ACCOUNT_ID|more than one account/i.test(text)) {
    return no('invalid', 'the login has several accounts; set CLOUDFLARE_ACCOUNT_ID for the service')
  }
  return no('failed', `wrangler failed: ${errorLineIn(text)}`)
}

function redactKeys(text: string, environment: ProgramEnvironment): string {
  const keys = [environment.CLOUDFLARE_API_TOKEN, environment.CLOUDFLARE_API_KEY]
  return keys.reduce<string>((left, key) => (key ? left.replaceAll(key, '***') : left), text)
}

/** Returns the line that wrangler marks as an error, or the last line without one. */
function errorLineIn(text: string): string {
  const lines = text.split('\n').map((line) => line.trim())
  const marked = lines.find((line) => /\[?error\]?/i.test(line)) ?? lines.findLast((line) => line !== '')
  return printable(marked ?? 'no output').slice(0, ERROR_LINE_CHARS_MAX)
}

// ---- who is logged in ----------------------------------------------------------------------------------------------

/** Whether this version of wrangler is too old for `whoami --json`. */
export function isJsonUnsupported({ code, out, err }: EndedProgram): boolean {
  return code !== 0 && !parseJson(out).ok && /unknown argument|unknown option/i.test(`${err}${out}`)
}

/** Returns the account's name, '' when the output names none, and undefined when no account is logged in. */
export function accountIn({ out }: EndedProgram, environment: ProgramEnvironment): string | undefined {
  const parsed = parseJson(out)
  if (!parsed.ok) return /associated with the email\s+['"]?([^\s'"!]+)/i.exec(out)?.[1]
  if (fieldAt(parsed.value, 'loggedIn') !== true) return undefined
  const listed = fieldAt(parsed.value, 'accounts')
  const accounts: readonly unknown[] = Array.isArray(listed) ? listed : []
  const wanted = environment.CLOUDFLARE_ACCOUNT_ID
  const account =
    accounts.find((candidate) => fieldAt(candidate, 'id') === wanted) ?? (wanted ? undefined : accounts[0])
  const name = fieldAt(account, 'name') ?? fieldAt(parsed.value, 'email')
  return typeof name === 'string' ? printable(name).slice(0, NAME_CHARS_MAX) : ''
}

function fieldAt(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined
}

// ---- logging in ----------------------------------------------------------------------------------------------------

/** @param result absent while the login waits for the person */
export function readLoginResult(
  output: string,
  result: ProgramResult | undefined,
  environment: ProgramEnvironment,
): Result<string> {
  const page = loginPageIn(output)
  if (result !== undefined && page === undefined) return endedLoginResult(result, environment)
  if (page === undefined) {
    return yes(
      `wrangler login was started; confirm it within ${LOGIN_MINUTES} minutes in the browser that it opens on this machine`,
    )
  }
  return yes(
    `confirm the login within ${LOGIN_MINUTES} minutes on the page that wrangler opens on this machine, or open it yourself: ${page} (from another machine, first forward its answer: ssh -L 8976:localhost:8976)`,
  )
}

const LOGIN_MINUTES = STORAGE_LOGIN_MS_MAX / 60_000

function endedLoginResult(result: ProgramResult, environment: ProgramEnvironment): Result<string> {
  if (result.is !== 'ended')
    return no('failed', 'wrangler login could not be started; run it on this machine')
  if (result.code === 0) return yes('the wrangler login is done')
  const reason = errorLineIn(redactKeys(`${result.err}\n${result.out}`, environment))
  return no('failed', `wrangler login ended at once: ${reason}; run it on this machine`)
}

/** Returns the address of the login page once it has been printed completely. */
export function loginPageIn(text: string): string | undefined {
  const page = /(https:\/\/dash\.cloudflare\.com\/oauth2\/[\x21-\x7e]+)\s/.exec(text)?.[1]
  return page === undefined || page.length > URL_CHARS_MAX ? undefined : page
}
