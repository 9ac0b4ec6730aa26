/** Reads the files with which the host's user trusts machines and proves itself to them: known_hosts, and key files. */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { HostKeySource, RemoteTarget } from '../core/ports/machines.ts'
import {
  judgeHostKey,
  type KnownHostsFile,
  keyFingerprint,
  keyTypeName,
  knownKeyTypes,
} from '../core/provision/known-hosts.ts'
import { provisionCommand, targetId } from '../core/provision/target.ts'
import { no, type Result, yes } from '../core/result.ts'
import { codeOf, messageOf } from '../protocol/message-of.ts'
import { quoteWord } from '../protocol/quote-word.ts'

/** Longer key and known_hosts files are not read. */
const SSH_FILE_BYTES_MAX = 4 * 1024 * 1024

export interface SshUser {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly home: string
  readonly uid: number
}

export interface IdentityFile {
  readonly path: string
  readonly key: Buffer
}

export interface HostKeyTrust {
  /** The types of the keys by which the machine is known. */
  readonly keyTypes: readonly string[]
  /** Refused as `conflict`, with the fingerprint and what to do. */
  judge(key: Uint8Array): Result<HostKeySource>
}

// ---- the machine's key -----------------------------------------------------------------------------------------------

export async function readTrust({ home }: SshUser, target: RemoteTarget): Promise<HostKeyTrust> {
  const paths = [
    join(home, '.ssh', 'known_hosts'),
    join(home, '.ssh', 'known_hosts2'),
    '/etc/ssh/ssh_known_hosts',
  ]
  const texts = await Promise.all(paths.map(readText))
  const files = paths.map((path, at) => ({ path, text: texts[at] ?? '' }))
  return {
    keyTypes: target.hostKeySha256 === undefined ? knownKeyTypes(files, target) : [],
    judge: (key) => judgeKey(files, target, key),
  }
}

function judgeKey(
  files: readonly KnownHostsFile[],
  target: RemoteTarget,
  key: Uint8Array,
): Result<HostKeySource> {
  const fingerprint = keyFingerprint(key)
  const name = `${keyTypeName(key)} ${fingerprint}`
  const at = targetId(target)
  const judged = judgeHostKey(files, { ...target, key })
  if (judged.is === 'revoked')
    return no('conflict', `the key of ${at} is revoked in known_hosts (${name}); do not connect to it`)
  if (target.hostKeySha256 !== undefined)
    return target.hostKeySha256 === fingerprint
      ? yes('hostKeySha256')
      : no('conflict', `/hostKeySha256: ${at} has another key: ${name}; somebody may be in between`)
  if (judged.is === 'known') return yes('known_hosts')
  if (judged.is === 'changed')
    return no(
      'conflict',
      `THE KEY OF ${at} HAS CHANGED to ${name}: somebody may be in between, or the machine was set up again. Line ${judged.line} of ${judged.file} names another one. Ask who runs the machine; when the new key is right: ssh-keygen -R ${quoteWord(knownName(target))}`,
    )
  return no(
    'conflict',
    `the key of ${at} is unknown: ${name}\n  compare it with the machine's own, then: ${provisionCommand(target, fingerprint)}`,
  )
}

const knownName = ({ host, port }: RemoteTarget): string => (port === 22 ? host : `[${host}]:${port}`)

async function readText(path: string): Promise<string> {
  try {
    return (await readBounded(path)).bytes.toString('utf8')
  } catch {
    return ''
  }
}

// ---- one's own key ---------------------------------------------------------------------------------------------------

/** Refused as `invalid`, with the field. */
export async function readIdentityFile({ home, uid }: SshUser, named: string): Promise<Result<IdentityFile>> {
  const path = named.startsWith('~/') ? join(home, named.slice(2)) : named
  try {
    const { bytes, mode, owner } = await readBounded(path)
    if ((mode & 0o077) !== 0)
      return no('invalid', `/identityFile: other users may read ${path}; chmod 600 ${quoteWord(path)}`)
    if (owner !== uid && owner !== 0) return no('invalid', `/identityFile: ${path} belongs to another user`)
    return yes({ path, key: bytes })
  } catch (error) {
    return no('invalid', `/identityFile: ${path} can't be read (${reasonOf(error)})`)
  }
}

async function readBounded(
  path: string,
): Promise<{ readonly bytes: Buffer; readonly mode: number; readonly owner: number }> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const facts = await file.stat()
    if (!facts.isFile()) throw new Error('it is no file')
    if (facts.size > SSH_FILE_BYTES_MAX) throw new Error('it is too long')
    return { bytes: await file.readFile(), mode: facts.mode, owner: facts.uid }
  } finally {
    await file.close()
  }
}

const reasonOf = (error: unknown): string => String(codeOf(error) ?? messageOf(error))
