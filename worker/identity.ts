/**
 * The worker's identity in files: the host's credential, and the pairing token that the worker redeems for one.
 *
 * `credential.json` is in the data directory, readable by its owner alone, and replaced atomically. The token file is
 * read once at start and deleted once the new credential is durable. After a crash in between, the next start recognises
 * the redeemed token by its hash, which is stored with the credential. A refused token's file is not deleted.
 */
import { isNativeError } from 'node:util/types'
import type { WorkerCredential, WorkerIdentity } from '../core/daemon/ports.ts'
import { hashSecret, isSameHash } from '../core/fleet/token.ts'
import { isInstallationId } from '../core/installation.ts'
import type { Log } from '../core/ports.ts'
import { no, type Result, yes } from '../core/result.ts'
import { readSecretFile } from './secret-file.ts'

export interface IdentityOptions {
  readonly credentialFile: string
  readonly tokenFile?: string
  /** The host that the worker dials; a credential is valid for one host. */
  readonly host: string
  readonly log: Log
  /** Replaces a file atomically, readable by its owner only; durable when it resolves. */
  readonly replaceFile: (path: string, text: string) => Promise<unknown>
  /** Deletes a file durably; does nothing if it does not exist. */
  readonly deleteFile: (path: string) => Promise<unknown>
}

const TOKEN = /^wp-[\w-]{43}$/
const WORKER_ID = /^wk-[0-9a-f]{16}$/
const SECRET = /^wc-[\w-]{43}$/

interface StoredCredential extends WorkerCredential {
  readonly host?: string
  /** The hash of the token that was redeemed for this credential. */
  readonly redeemed?: string
}

export interface StoredIdentity extends WorkerIdentity {
  /** Resolves when all pending writes and deletions are done. */
  waitUntilSettled(): Promise<void>
}

/** Refuses if a file exists but cannot be used. Missing files are not refused: the daemon decides about them. */
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

  /** Deletes the token file if an earlier process stored the credential but died before the deletion. */
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
        'this worker was enrolled under another address; its credential is sent to the address given now',
      )
  }

  credential(): WorkerCredential | undefined {
    if (this.#stored === undefined) return undefined
    const { workerId, secret, installation } = this.#stored
    return { workerId, secret, ...(installation === undefined ? {} : { installation }) }
  }

  pairingToken(): string | undefined {
    return this.#token
  }

  /** Takes effect in memory at once: the connection may break, and the redeemed token is worthless. */
  saveCredential({ workerId, secret, installation }: WorkerCredential): Promise<void> {
    const token = this.#token
    const before = this.#stored
    const redeemed = token === undefined ? before?.redeemed : hashSecret(token)
    const kept: StoredCredential = {
      workerId,
      secret,
      host: this.#options.host,
      ...(installation === undefined ? {} : { installation }),
      ...(redeemed === undefined ? {} : { redeemed }),
    }
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
    log.warn(
      { tokenFile },
      'the host refused the pairing token; its file is not deleted, create a new token on the host',
    )
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

  /** Writes run one after the other, so that the last call decides what is on disk. */
  #writeInOrder(write: () => Promise<void>): Promise<void> {
    const written = this.#writing.then(write)
    this.#writing = written.catch(() => {})
    return written
  }

  /** Deletes the file only if it still contains this token: it may already contain the next one. */
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
    // The file is missing if an earlier process with the same command line redeemed the token.
    if (file === undefined) return yes(undefined)
    const token = file.text.trim()
    if (!TOKEN.test(token))
      return no('invalid', `--token-file: ${tokenFile} holds no pairing token (wp-… and nothing else)`)
    if ((file.mode & 0o077) !== 0)
      log.warn({ tokenFile }, 'the token file can be read by other users; restrict it with chmod 600')
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
    log.warn({ credentialFile }, `${fault}; enrolling again`)
    return yes(undefined)
  }
}

function parseCredential(text: string): StoredCredential | undefined {
  const fields = new Map<string, unknown>(Object.entries(parseObject(text)))
  const [workerId, secret] = [fields.get('workerId'), fields.get('secret')]
  const [host, redeemed] = [fields.get('host'), fields.get('redeemed')]
  const installation = fields.get('installation')
  if (typeof workerId !== 'string' || !WORKER_ID.test(workerId)) return undefined
  if (typeof secret !== 'string' || !SECRET.test(secret)) return undefined
  return {
    workerId,
    secret,
    ...(typeof host === 'string' ? { host } : {}),
    ...(typeof redeemed === 'string' ? { redeemed } : {}),
    ...(isInstallationId(installation) ? { installation } : {}),
  }
}

/** Hides the parser's error, which would quote from a damaged file. */
function parseObject(text: string): object {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

const textOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))
