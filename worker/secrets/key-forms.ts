/**
 * `findKeys` finds what has the form of a key: private keys, and tokens that their issuers made recognizable.
 *
 * A form counts only when an example in a document hardly has it: by its checksum where it has one, otherwise by its
 * length, and by characters that look drawn at random. Keys of other kinds, and keys that somebody encodes, pass.
 */

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
