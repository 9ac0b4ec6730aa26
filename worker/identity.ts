/**
 * Who the worker is, as files: the credential that the host gave it, and the pairing token it redeems for one.
 *
 * `credential.json` lies in the worker's own data directory, for its owner alone, and is replaced whole. The token
 * comes in a file that somebody else wrote; it is read once, at start, and the file is deleted when what was got for
 * it is on disk. A crash in between is noticed at the next start by the token's hash, which is kept beside the
 * credential. A token that the host refuses is left where it is: whoever put it there finds it again.
 */

import { isNativeError } from 'node:util/types'
import type { WorkerCredential, WorkerIdentity } from '../core/daemon/ports.ts'
import { hashSecret, isSameHash } from '../core/fleet/token.ts'
import type { Log } from '../core/ports.ts'
import { no, type Result, yes } from '../core/result.ts'
import { readSecretFile } from './secret-file.ts'

export interface IdentityOptions {
  readonly credentialFile: string
  readonly tokenFile?: string
  /** Where it dials: a credential is good for one host. */
  readonly host: string
  readonly log: Log
  /** Atomically, owner-only, durable when it resolves. */
  readonly replaceFile: (path: string, text: string) => Promise<unknown>
  /** Durably; nothing happens when there is no such file. */
  readonly deleteFile: (path: string) => Promise<unknown>
}

const TOKEN = /^wp-[\w-]{43}$/
const WORKER_ID = /^wk-[0-9a-f]{16}$/
const SECRET = /^wc-[\w-]{43}$/

interface StoredCredential extends WorkerCredential {
  readonly host?: string
  /** The hash of the token that it was got for. */
  readonly redeemed?: string
}

export interface StoredIdentity extends WorkerIdentity {
  /** Everything that was to be kept or deleted is. */
  waitUntilSettled(): Promise<void>
}

/** Refused when a file is there and can't be used; that there is none is for the host and the daemon to judge. */
export async function openIdentity(options: IdentityOptions): Promise<Result<StoredIdentity>> {
  const token = await readToken(options)
  if (!token.ok) return token
  const stored = await readCredential(options, token.value !== undefined)
  if (!stored.ok) return stored
  const identity = new FileIdentity(options, token.value, stored.value)
  await identity.finishRedemption()
  return yes(identity)
}

class FileIdentity implements StoredIdentity {
  readonly #options: IdentityOptions
  #token: string | undefined
  #stored: StoredCredential | undefined
  #writing: Promise<unknown> = Promise.resolve()

  constructor(options: IdentityOptions, token: string | undefined, stored: StoredCredential | undefined) {
    this.#options = options
    this.#token = token
    this.#stored = stored
  }

  /** The last life may have ended between getting its credential and deleting the token. */
  async finishRedemption(): Promise<void> {
    const { redeemed, host } = this.#stored ?? {}
    const token = this.#token
    if (token !== undefined && redeemed !== undefined && isSameHash(hashSecret(token), redeemed)) {
      this.#token = undefined
      await this.#deleteToken(token)
    }
    if (host !== undefined && host !== this.#options.host && this.#token === undefined)
      this.#options.log.warn(
        { enrolledAt: host, dialling: this.#options.host },
        'this worker was enrolled under another address; its credential is shown to the one named now',
      )
  }

  credential(): WorkerCredential | undefined {
    if (this.#stored === undefined) return undefined
    const { workerId, secret } = this.#stored
    return { workerId, secret }
  }

  pairingToken(): string | undefined {
    return this.#token
  }

  /** At once what is shown: the line may break, and the token is worth nothing any more. */
  saveCredential({ workerId, secret }: WorkerCredential): Promise<void> {
    const token = this.#token
    const kept: StoredCredential = {
      workerId,
      secret,
      host: this.#options.host,
      ...(token === undefined ? {} : { redeemed: hashSecret(token) }),
    }
    const before = this.#stored
    this.#token = undefined
    this.#stored = kept
    return this.#writeInOrder(() => this.#write(kept, before, token))
  }

  async #write(
    stored: StoredCredential,
    before: StoredCredential | undefined,
    token: string | undefined,
  ): Promise<void> {
    const { credentialFile, replaceFile } = this.#options
    try {
      await replaceFile(credentialFile, `${JSON.stringify(stored, undefined, 2)}\n`)
    } catch (error) {
      if (this.#stored === stored) this.#stored = before
      throw error
    }
    if (token !== undefined) await this.#deleteToken(token)
  }

  async deletePairingToken(): Promise<void> {
    if (this.#token === undefined) return
    this.#token = undefined
    const { log, tokenFile } = this.#options
    log.warn({ tokenFile }, 'the host refused the pairing token; its file is left where it is, get a new one')
  }

  deleteCredential(): Promise<void> {
    this.#stored = undefined
    return this.#writeInOrder(async () => {
      this.#stored = undefined
      await this.#options.deleteFile(this.#options.credentialFile)
    })
  }

  async waitUntilSettled(): Promise<void> {
    await this.#writing
  }

  /** One after the other, so that what was said last is what is on disk. */
  #writeInOrder(write: () => Promise<void>): Promise<void> {
    const written = this.#writing.then(write)
    this.#writing = written.catch(() => {})
    return written
  }

  /** Only while it still holds this very token: somebody may have put the next one there. */
  async #deleteToken(token: string): Promise<void> {
    const { tokenFile, deleteFile, log } = this.#options
    if (tokenFile === undefined) return
    try {
      const now = await readSecretFile(tokenFile)
      if (now?.text.trim() === token) await deleteFile(tokenFile)
    } catch (error) {
      log.warn(
        { tokenFile, reason: textOf(error) },
        'the redeemed pairing token could not be deleted; it is worthless now, delete it by hand',
      )
    }
  }
}

// ---- reading -----------------------------------------------------------------------------------------------------

async function readToken({ tokenFile, log }: IdentityOptions): Promise<Result<string | undefined>> {
  if (tokenFile === undefined) return yes(undefined)
  try {
    const file = await readSecretFile(tokenFile)
    // Redeemed by an earlier life, which was started with the same words.
    if (file === undefined) return yes(undefined)
    const token = file.text.trim()
    if (!TOKEN.test(token))
      return no('invalid', `--token-file: ${tokenFile} holds no pairing token (wp-… and nothing else)`)
    if ((file.mode & 0o077) !== 0)
      log.warn(
        { tokenFile },
        'the token file can be read by others; keep such files for yourself (chmod 600)',
      )
    return yes(token)
  } catch (error) {
    return no('invalid', `--token-file: ${tokenFile} can't be used: ${textOf(error)}`)
  }
}

async function readCredential(
  { credentialFile, log }: IdentityOptions,
  hasToken: boolean,
): Promise<Result<StoredCredential | undefined>> {
  try {
    const file = await readSecretFile(credentialFile, 0o600)
    if (file === undefined) return yes(undefined)
    const stored = parseCredential(file.text)
    if (stored !== undefined) return yes(stored)
    throw new Error('it is damaged')
  } catch (error) {
    const fault = `the credential ${credentialFile} can't be used: ${textOf(error)}`
    if (!hasToken)
      return no('failed', `${fault}; restore it, or start with a new pairing token in --token-file`)
    log.warn({ credentialFile }, `${fault}; enrolling anew`)
    return yes(undefined)
  }
}

function parseCredential(text: string): StoredCredential | undefined {
  const fields = new Map<string, unknown>(Object.entries(parseObject(text)))
  const [workerId, secret] = [fields.get('workerId'), fields.get('secret')]
  const [host, redeemed] = [fields.get('host'), fields.get('redeemed')]
  if (typeof workerId !== 'string' || !WORKER_ID.test(workerId)) return undefined
  if (typeof secret !== 'string' || !SECRET.test(secret)) return undefined
  return {
    workerId,
    secret,
    ...(typeof host === 'string' ? { host } : {}),
    ...(typeof redeemed === 'string' ? { redeemed } : {}),
  }
}

/** What the parser would say of a damaged file quotes from it. */
function parseObject(text: string): object {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

const textOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))
