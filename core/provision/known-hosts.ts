/**
 * Judges a machine's SSH key by the lines of known_hosts files, as OpenSSH does: plain, hashed and negated names,
 * patterns, `[host]:port` for other ports, and `@revoked`.
 *
 * Certificates are not judged: a line with `@cert-authority` is ignored.
 */
import { createHash, createHmac } from 'node:crypto'

export interface PresentedKey {
  readonly host: string
  readonly port: number
  /** The key as the machine sent it. */
  readonly key: Uint8Array
}

export type KeyJudgement =
  | { readonly is: 'known' }
  | { readonly is: 'unknown' }
  | { readonly is: 'revoked' }
  /** The files name another key of the same type. `line`: where. */
  | { readonly is: 'changed'; readonly file: string; readonly line: number }

export interface KnownHostsFile {
  readonly path: string
  readonly text: string
}

interface KnownHost {
  readonly file: string
  readonly line: number
  readonly marker: string | undefined
  readonly names: string
  readonly type: string
  readonly key: string
}

export function judgeHostKey(files: readonly KnownHostsFile[], presented: PresentedKey): KeyJudgement {
  const key = Buffer.from(presented.key).toString('base64')
  const type = keyType(presented.key)
  const matching = linesFor(files, presented)
  if (matching.some((each) => each.marker === '@revoked' && each.key === key)) return { is: 'revoked' }
  const plain = matching.filter(({ marker }) => marker === undefined)
  if (plain.some((each) => each.key === key)) return { is: 'known' }
  // A machine that is known by a key of another type only may have had this one all the time; so may an attacker's.
  const known = plain.find((each) => each.type === type) ?? plain[0]
  return known === undefined ? { is: 'unknown' } : { is: 'changed', file: known.file, line: known.line }
}

/** The types of the keys by which a machine is known, so that the machine is asked for one of these. */
export function knownKeyTypes(
  files: readonly KnownHostsFile[],
  at: Pick<PresentedKey, 'host' | 'port'>,
): string[] {
  return [
    ...new Set(
      linesFor(files, at)
        .filter(({ marker }) => marker === undefined)
        .map(({ type }) => type),
    ),
  ]
}

/** As `ssh-keygen -l` prints it. */
export const keyFingerprint = (key: Uint8Array): string =>
  `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`

/** The name of the key's type at its beginning; empty when the key is malformed. */
export function keyType(key: Uint8Array): string {
  const bytes = Buffer.from(key)
  const length = bytes.length < 4 ? 0 : bytes.readUInt32BE(0)
  return length > 64 ? '' : bytes.toString('latin1', 4, 4 + length).replace(/[^\x21-\x7e]/g, '')
}

/** Like `ED25519`, as OpenSSH prints it. */
export function keyTypeName(key: Uint8Array): string {
  const type = keyType(key)
  if (type.includes('ed25519')) return 'ED25519'
  return type.startsWith('ecdsa') ? 'ECDSA' : type.includes('rsa') ? 'RSA' : type
}

// ---- lines -------------------------------------------------------------------------------------------------------

function linesFor(
  files: readonly KnownHostsFile[],
  { host, port }: Pick<PresentedKey, 'host' | 'port'>,
): KnownHost[] {
  const name = (port === 22 ? host : `[${host}]:${port}`).toLowerCase()
  return files.flatMap(parseLines).filter(({ names }) => matchesName(names, name))
}

function parseLines({ path, text }: KnownHostsFile): KnownHost[] {
  return text.split('\n').flatMap((content, at) => {
    const words = content.trim().split(/\s+/)
    if (words[0] === undefined || words[0] === '' || words[0].startsWith('#')) return []
    const marker = words[0].startsWith('@') ? words.shift() : undefined
    const [names, type, key] = words
    if (names === undefined || type === undefined || key === undefined) return []
    return [{ file: path, line: at + 1, marker, names, type, key }]
  })
}

function matchesName(names: string, name: string): boolean {
  if (names.startsWith('|1|')) return matchesHash(names, name)
  const patterns = names.toLowerCase().split(',')
  const isExcluded = patterns.some((each) => each.startsWith('!') && matchesPattern(each.slice(1), name))
  return !isExcluded && patterns.some((each) => !each.startsWith('!') && matchesPattern(each, name))
}

function matchesHash(names: string, name: string): boolean {
  const [, , salt = '', hash = ''] = names.split('|')
  return createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest('base64') === hash
}

/** `*` stands for any text and `?` for any character; brackets are part of `[host]:port`. */
function matchesPattern(pattern: string, name: string): boolean {
  const escaped = pattern.replace(/[\\^$.|+()[\]{}]/g, '\\$&')
  return new RegExp(`^${escaped.replace(/\*+/g, '.*').replace(/\?/g, '.')}$`).test(name)
}
