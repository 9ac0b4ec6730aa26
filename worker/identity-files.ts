/**
 * Reads the files of a worker's identity: credential, pairing token, join key.
 *
 * A file that exists and cannot be used is refused with its option or path. A missing token file was redeemed before.
 */

import { constants } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import type { WorkerCredential } from '../core/daemon/ports.ts'
import { isInstallationId } from '../core/installation.ts'
import type { Log } from '../core/ports/log.ts'
import { no, type Result, yes } from '../core/result.ts'
import { codeOf, messageOf } from '../protocol/message-of.ts'

export interface IdentityFiles {
  readonly credentialFile: string
  readonly tokenFile?: string | undefined
  readonly joinKeyFile?: string | undefined
  readonly log: Log
}

export interface StoredCredential extends WorkerCredential {
  readonly host?: string
  /** The hash of the token that was redeemed for this credential. */
  readonly redeemed?: string
}

const READABLE_FOR_GROUP = 0o040
const TOKEN = /^wp-[\w-]{43}$/
const JOIN_KEY = /^wj-[\w-]{43}$/
const WORKER_ID = /^wk-[0-9a-f]{16}$/
const SECRET = /^wc-[\w-]{43}$/

export async function readToken({ tokenFile, log }: IdentityFiles): Promise<Result<string | undefined>> {
  if (tokenFile === undefined) return yes(undefined)
  try {
    const file = await readSecretFile(tokenFile)
    // The file is missing if an earlier process with the same command line redeemed the token.
    if (file === undefined) return yes(undefined)
    const token = file.text.trim()
    if (!TOKEN.test(token))
      return no('invalid', `--token-file: ${tokenFile} holds no pairing token (wp-… and nothing else)`)
    warnOfOtherReaders(file.mode, 'token', tokenFile, log)
    return yes(token)
  } catch (error) {
    return no('invalid', `--token-file: ${tokenFile} can't be used: ${textOf(error)}`)
  }
}

/** Follows a link, because the secrets that a container mounts are links, and this file is never deleted. */
export async function readJoinKey({ joinKeyFile, log }: IdentityFiles): Promise<Result<string | undefined>> {
  if (joinKeyFile === undefined) return yes(undefined)
  try {
    const file = await readSecretFile(await realpath(joinKeyFile))
    if (file === undefined) return noJoinKey(joinKeyFile)
    const key = file.text.trim()
    if (!JOIN_KEY.test(key))
      return no('invalid', `--join-key-file: ${joinKeyFile} holds no join key (wj-… and nothing else)`)
    // A pod's secrets belong to root and are readable for the group of the pod.
    warnOfOtherReaders(file.mode & ~READABLE_FOR_GROUP, 'join key', joinKeyFile, log)
    return yes(key)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return noJoinKey(joinKeyFile)
    return no('invalid', `--join-key-file: ${joinKeyFile} can't be used: ${textOf(error)}`)
  }
}

const noJoinKey = (file: string): Result<never> => no('invalid', `--join-key-file: ${file} does not exist`)

function warnOfOtherReaders(mode: number, what: string, file: string, log: Log): void {
  if ((mode & 0o077) !== 0)
    log.warn({ file }, `the ${what} file can be read by other users; restrict it with chmod 600`)
}

export async function readCredential(
  { credentialFile, log }: IdentityFiles,
  canEnroll: boolean,
): Promise<Result<StoredCredential | undefined>> {
  try {
    const file = await readSecretFile(credentialFile, 0o600)
    if (file === undefined) return yes(undefined)
    const stored = parseCredential(file.text)
    if (stored !== undefined) return yes(stored)
    throw new Error('it is damaged')
  } catch (error) {
    const fault = `the credential ${credentialFile} can't be used: ${textOf(error)}`
    if (!canEnroll)
      return no('failed', `${fault}; restore it, or start with a new pairing token in --token-file`)
    log.warn({ credentialFile }, `${fault}; enrolling again`)
    return yes(undefined)
  }
}

/** Reads the credential for another program of this machine; undefined: none is stored. Throws when it is unusable. */
export async function readStoredCredential(credentialFile: string): Promise<WorkerCredential | undefined> {
  const file = await readSecretFile(credentialFile)
  if (file === undefined) return undefined
  const stored = parseCredential(file.text)
  if (stored === undefined) throw new Error(`the credential ${credentialFile} is damaged`)
  return stored
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

const textOf = (error: unknown): string => messageOf(error)

const FILE_BYTES_MAX = 4_096

interface SecretFile {
  readonly text: string
  readonly mode: number
}

/**
 * `readSecretFile` reads a small secret file: it follows no link, does not block on a pipe, and limits the size.
 *
 * Returns undefined if the file does not exist. `mode`: the file's mode is changed to this one if it differs.
 */
export async function readSecretFile(path: string, mode?: number): Promise<SecretFile | undefined> {
  let handle: FileHandle
  try {
    // Without O_NONBLOCK, opening a pipe would block forever.
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (codeOf(error) === 'ELOOP') throw new Error('it is a link; name the file itself', { cause: error })
    throw error
  }
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new Error('it is no plain file')
    if (stats.size > FILE_BYTES_MAX) throw new Error(`it is longer than ${FILE_BYTES_MAX} bytes`)
    if (mode !== undefined && (stats.mode & 0o777) !== mode) await handle.chmod(mode)
    return { text: await handle.readFile('utf8'), mode: stats.mode }
  } finally {
    await handle.close()
  }
}
