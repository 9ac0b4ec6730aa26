/**
 * The worker's identity in files: the host's credential, and the pairing token or the join key that gives it one.
 *
 * `credential.json` is in the data directory, readable by its owner alone, and replaced atomically. The token file is
 * read once at start and deleted once the new credential is durable. After a crash in between, the next start recognises
 * the redeemed token by its hash, which is stored with the credential. A refused token's file is not deleted, and a join
 * key's file never is, because other workers use it too.
 */
import type { WorkerCredential, WorkerIdentity } from '../core/daemon/ports.ts'
import { hashSecret, isSameHash } from '../core/fleet/token.ts'
import { no, type Result, yes } from '../core/result.ts'
import { messageOf } from '../protocol/message-of.ts'
import {
  type IdentityFiles,
  readCredential,
  readJoinKey,
  readSecretFile,
  readToken,
  type StoredCredential,
} from './identity-files.ts'

export interface IdentityOptions extends IdentityFiles {
  /** The host that the worker dials; a credential is valid for one host. */
  readonly host: string
  /** Replaces a file atomically, readable by its owner only; durable when it resolves. */
  readonly replaceFile: (path: string, text: string) => Promise<unknown>
  /** Deletes a file durably; does nothing if it does not exist. */
  readonly deleteFile: (path: string) => Promise<unknown>
}

export interface StoredIdentity extends WorkerIdentity {
  /** Resolves when all pending writes and deletions are done. */
  waitUntilSettled(): Promise<void>
}

/** Refuses if a file exists but cannot be used. A missing token file is refused when nothing else proves the worker. */
export async function openIdentity(options: IdentityOptions): Promise<Result<StoredIdentity>> {
  const token = await readToken(options)
  if (!token.ok) return token
  const joinKey = await readJoinKey(options)
  if (!joinKey.ok) return joinKey
  const canEnroll = token.value !== undefined || joinKey.value !== undefined
  const stored = await readCredential(options, canEnroll)
  if (!stored.ok) return stored
  const { tokenFile } = options
  if (tokenFile !== undefined && !canEnroll && stored.value === undefined)
    return no(
      'conflict',
      `--token-file: ${tokenFile} does not exist, and this machine is not paired; make a token on the host: switchyard workers pair`,
    )
  const identity = new FileIdentity(options, token.value, stored.value, joinKey.value)
  await identity.finishRedemption()
  return yes(identity)
}

class FileIdentity implements StoredIdentity {
  readonly joinKey?: string
  readonly #options: IdentityOptions
  #token: string | undefined
  #stored: StoredCredential | undefined
  #writing: Promise<unknown> = Promise.resolve()

  constructor(
    options: IdentityOptions,
    token: string | undefined,
    stored: StoredCredential | undefined,
    joinKey: string | undefined,
  ) {
    this.#options = options
    if (joinKey !== undefined) this.joinKey = joinKey
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

const textOf = (error: unknown): string => messageOf(error)
