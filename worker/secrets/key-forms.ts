/**
 * `findKeys` finds what has the form of a key: private keys, and tokens that their issuers made recognizable. `KeyScan`
 * finds them in a stream, and `refuseKeys` holds the work in which they are.
 *
 * A form counts only when an example in a document hardly has it: by its checksum where it has one, otherwise by its
 * length, and by characters that look drawn at random. Keys of other kinds, and keys that somebody encodes, pass.
 */
import { createHash } from 'node:crypto'
import { no, type Result, yes } from '../../core/result.ts'
import { foundKeysText } from '../../core/run/found-keys.ts'
import type { FoundKey } from '../../protocol/found-key.ts'
import type { Job } from '../../protocol/frames.ts'
import { FOUND_KEYS_MAX } from '../../protocol/limits.ts'

export interface KeyMatch {
  /** The words for people, such as "a GitHub token". */
  readonly kind: string
  readonly at: number
  readonly value: string
}

interface KeyForm {
  readonly kind: string
  /** Matches at the beginning of a key. */
  readonly pattern: RegExp
  /** Whether it is one, which the pattern alone does not tell. */
  readonly isKey?: (value: string, text: string, at: number) => boolean
}

/** A key's beginning lies within so many characters of its end, and an access key so near to its secret. */
export const KEY_CHARS_MAX = 1024

/** Every form begins with one of these, so a content is read once for all of them. */
const BEGINNINGS =
  /-----BEGIN |gh[pousr]_|github_pat_|npm_|A(?:KIA|SIA)|xox[abeprs]-|xapp-|hooks\.slack\.com|[sr]k_live_|sk-|AIza|GOCSPX-/g

const FORMS: readonly KeyForm[] = [
  {
    kind: 'a private key',
    // Line breaks may be written down, and lines may be quoted, indented or joined. A header ends without a space, or
    // there were too many ways to read it.
    pattern:
      /-----BEGIN (?:[A-Z0-9]{2,10} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|[\s"'+,;|>#*]){0,99}(?:[A-Za-z-]{3,20}: [^\s\\](?:[^\n\\]{0,98}[^\s\\])?(?:\\[nr]|\s){1,9}){0,3}[A-Za-z0-9+/]{40,99}(?:(?:\\[nr]|[\s"'+,;|>#*]){1,30}[A-Za-z0-9+/=]{16,99}){0,3}/y,
    isKey: (value) => new Set(value.slice(value.lastIndexOf('-----'))).size >= KEY_DISTINCT_MIN,
  },
  { kind: 'a GitHub token', pattern: /gh[pousr]_[A-Za-z0-9]{36}(?![A-Za-z0-9])/y, isKey: hasChecksum },
  {
    kind: 'a GitHub token',
    pattern: /(?:github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}|ghs_[0-9]+_eyJ[\w-]{20,}\.[\w-]{20,}\.)/y,
    isKey: isRandom,
  },
  { kind: 'an npm token', pattern: /npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])/y, isKey: hasChecksum },
  {
    kind: 'an AWS access key',
    pattern: /A(?:KIA|SIA)[A-Z2-7]{16}(?![A-Za-z0-9])/y,
    isKey: (value, text, at) => isRandom(value) && hasAwsSecret(text, at),
  },
  {
    kind: 'a Slack token',
    pattern:
      /(?:xox[abeprs]-(?:[0-9]{8,14}-){1,3}[A-Za-z0-9]{20,40}|xapp-[0-9]-[A-Z0-9]{8,14}-[0-9]{8,14}-[a-f0-9]{60,})/y,
    isKey: isRandom,
  },
  {
    kind: 'a Slack webhook',
    pattern: /hooks\.slack\.com\/services\/T[A-Z0-9]{6,14}\/B[A-Z0-9]{6,14}\/[A-Za-z0-9]{24}/y,
    isKey: (value) => isRandom(value.slice(-24)),
  },
  { kind: 'a live Stripe key', pattern: /[sr]k_live_[A-Za-z0-9]{24,120}/y, isKey: isRandom },
  { kind: 'an Anthropic key', pattern: /sk-ant-[a-z]{3,6}[0-9]{2}-[\w-]{80,120}/y, isKey: isRandom },
  {
    kind: 'an OpenAI key',
    pattern: /sk-(?:[a-z]{4,10}-)?[\w-]{20,80}T3BlbkFJ[\w-]{20,80}/y,
    isKey: isRandom,
  },
  { kind: 'a Google key', pattern: /(?:AIza[\w-]{35}|GOCSPX-[\w-]{28})(?![\w-])/y, isKey: isRandom },
]

/** The keys that begin in `text` between `from` and `to`; what stands around them is read, too. */
export function findKeys(text: string, from = 0, to = text.length): KeyMatch[] {
  const found: KeyMatch[] = []
  BEGINNINGS.lastIndex = from
  for (let begin = BEGINNINGS.exec(text); begin !== null; begin = BEGINNINGS.exec(text)) {
    const at = begin.index
    if (at >= to) break
    const match = isInsideWord(text, at) ? undefined : matchAt(text, at)
    if (match !== undefined) found.push(match)
    BEGINNINGS.lastIndex = match === undefined ? at + 1 : at + match.value.length
  }
  return found
}

/** A letter behind a backslash is a line break that a program has written down. */
const INSIDE_WORD = /(?<!\\)[A-Za-z0-9_]$|\\[^nrt]$/

const isInsideWord = (text: string, at: number): boolean =>
  text[at] !== '-' && INSIDE_WORD.test(text.slice(Math.max(0, at - 2), at))

function matchAt(text: string, at: number): KeyMatch | undefined {
  for (const { kind, pattern, isKey } of FORMS) {
    pattern.lastIndex = at
    const value = pattern.exec(text)?.[0]
    if (value !== undefined && isKey?.(value, text, at) !== false) return { kind, at, value }
  }
  return undefined
}

// ---- what makes a key of it --------------------------------------------------------------------------------------

const DISTINCT_MIN = 10
const KEY_DISTINCT_MIN = 20
/** People write such runs, and chance does not. */
const WRITTEN = /example|012345|123456|234567|abcdef|(.)\1{5}/i

function isRandom(value: string): boolean {
  return new Set(value).size >= DISTINCT_MIN && !WRITTEN.test(value)
}

/** Each 40 characters of upper case, lower case and digits near the access key; names of commits lack upper case. */
const AWS_SECRET =
  /(?<![A-Za-z0-9/+])(?=[a-z0-9/+]*[A-Z])(?=[A-Z0-9/+]*[a-z])(?=[A-Za-z/+]*[0-9])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])/g
const AWS_SECRET_WITHIN = 400

function hasAwsSecret(text: string, at: number): boolean {
  const near = text.slice(Math.max(0, at - AWS_SECRET_WITHIN), at + AWS_SECRET_WITHIN)
  return (near.match(AWS_SECRET) ?? []).some(isRandom)
}

const CHECKSUM_CHARS = 6
const PREFIX_CHARS = 4

/** The last six characters are the CRC-32 of the thirty before them, in base 62. */
function hasChecksum(value: string): boolean {
  const body = value.slice(PREFIX_CHARS, -CHECKSUM_CHARS)
  return value.slice(-CHECKSUM_CHARS) === inBase62(crc32(body))
}

function crc32(text: string): number {
  let sum = ~0
  for (const byte of Buffer.from(text, 'latin1')) {
    sum ^= byte
    for (let bit = 0; bit < 8; bit += 1) sum = (sum & 1) === 0 ? sum >>> 1 : (sum >>> 1) ^ 0xedb88320
  }
  return ~sum >>> 0
}

const BASE_62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

function inBase62(number: number): string {
  let text = ''
  for (let rest = number; rest > 0; rest = Math.floor(rest / 62)) text = `${BASE_62[rest % 62]}${text}`
  return text.padStart(CHECKSUM_CHARS, '0')
}

// ---- keys in a stream ----------------------------------------------------------------------------------------------

export interface FoundValue {
  readonly kind: string
  /** Counted from 1. */
  readonly line: number
  readonly value: string
}

const BYTES_AT_ONCE_MAX = 64 * 1024

/**
 * `KeyScan` finds keys in a content that arrives in pieces, and counts its lines. It keeps a few hundred bytes of it.
 */
export class KeyScan {
  readonly #onKey: (found: FoundValue) => void
  #text = ''
  /** The text before this place was searched. */
  #searchedTo = 0
  /** The line in which `#text` begins. */
  #line = 1

  constructor(onKey: (found: FoundValue) => void) {
    this.#onKey = onKey
  }

  /** Begins another content. */
  reset(): void {
    this.#text = ''
    this.#searchedTo = 0
    this.#line = 1
  }

  push(piece: Uint8Array): void {
    for (let from = 0; from < piece.length; from += BYTES_AT_ONCE_MAX) {
      const bytes = piece.subarray(from, from + BYTES_AT_ONCE_MAX)
      this.#text += Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
      this.#search(this.#text.length - KEY_CHARS_MAX)
      this.#dropSearched()
    }
  }

  /** The content is whole. */
  end(): void {
    this.#search(this.#text.length)
  }

  /** Searches for keys that begin before `to`, behind which the rest of such a key may stand. */
  #search(to: number): void {
    if (to <= this.#searchedTo) return
    for (const { kind, at, value } of findKeys(this.#text, this.#searchedTo, to))
      this.#onKey({ kind, value, line: this.#line + countLines(this.#text, at) })
    this.#searchedTo = to
  }

  #dropSearched(): void {
    const dropped = this.#searchedTo - KEY_CHARS_MAX
    if (dropped <= 0) return
    this.#line += countLines(this.#text, dropped)
    this.#text = this.#text.slice(dropped)
    this.#searchedTo = KEY_CHARS_MAX
  }
}

function countLines(text: string, to: number): number {
  let lines = 0
  for (let at = text.indexOf('\n'); at !== -1 && at < to; at = text.indexOf('\n', at + 1)) lines += 1
  return lines
}

// ---- the keys of a run ---------------------------------------------------------------------------------------------

/**
 * A key in a run's work: its place and what it looks like, never the key. `mark` differs for another key, and for the
 * same one elsewhere. A line that moved changes nothing about it.
 *
 * A person's word to publish keys is for those that were shown to them. Their digest goes to the host with the places,
 * and comes back with the word, so keys that are added later are asked about anew.
 */
export type MarkedKey = FoundKey & { readonly mark: string }

export const hashOf = (value: string): string => createHash('sha256').update(value, 'latin1').digest('base64')

export const markOf = (kind: string, place: string, hash: string): string =>
  createHash('sha256')
    .update(JSON.stringify([kind, place, hash]))
    .digest('base64')

/** The work waits until a person says that it is published anyway, as the job then does. */
export function refuseKeys(
  { publishAnyway, shownKeys }: Pick<Job, 'publishAnyway' | 'shownKeys'>,
  found: readonly MarkedKey[],
): Result<void> {
  if (found.length === 0) return yes(undefined)
  const keysDigest = digestOf(found)
  // A host of an earlier version does not say what it showed.
  if (publishAnyway === true && (shownKeys ?? keysDigest) === keysDigest) return yes(undefined)
  const keys = placesOf(found).slice(0, FOUND_KEYS_MAX)
  const { refusal } = no('forbidden', `${foundKeysText(keys)}, so nothing was published`)
  return { ok: false, refusal: { ...refusal, keys, keysDigest } }
}

/** `place`: what holds the text, such as "the text for the pull request". */
export const keysInText = (text: string, place: string): MarkedKey[] =>
  findKeys(text).map(({ kind, value }) => ({ kind, file: place, mark: markOf(kind, place, hashOf(value)) }))

/** The distinct places. */
export function placesOf(found: readonly MarkedKey[]): FoundKey[] {
  const places = found.map(({ mark: _, ...place }): FoundKey => place)
  return [...new Map(places.map((place) => [JSON.stringify(place), place])).values()]
}

function digestOf(found: readonly MarkedKey[]): string {
  const marks = [...new Set(found.map(({ mark }) => mark))].sort()
  return createHash('sha256').update(marks.join('\n')).digest('base64')
}
