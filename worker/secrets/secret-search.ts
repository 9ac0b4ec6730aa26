/**
 * `SecretSearch` finds secrets in content that leaves a sandbox, in the forms that programs usually write.
 *
 * Content and secrets are compared by their letters and digits alone, in lower case. So one pattern finds a secret
 * whatever stands between its characters: line breaks, quotes, percent signs, comment marks, the zero bytes of UTF-16.
 * The search reads each byte once and keeps a few hundred of them. A program that wants to hide a secret can encrypt
 * it: the search stops mistakes and careless thefts, and is no proof.
 */

export interface NamedSecret {
  /** Names the secret in messages, such as "the agent's credential". */
  readonly name: string
  readonly value: string
}

export interface SecretSearch {
  /** Without secrets there is nothing to search for. */
  readonly isEmpty: boolean
  /** The name of the first secret in the content. */
  findIn(content: string | Buffer): string | undefined
  openScan(): SecretScan
}

/** Searches contents that arrive in pieces, one content after the other. */
export interface SecretScan {
  /** Begins another content. */
  reset(): void
  push(piece: Uint8Array): void
  /** The name of the first secret since `reset`. */
  found(): string | undefined
}

/** Shorter secrets would match by accident, and no service issues them. */
const SYMBOLS_MIN = 8

export function createSecretSearch(secrets: readonly NamedSecret[]): SecretSearch {
  const patterns = secrets.flatMap(({ name, value }) =>
    patternsOf(value).map((symbols): SecretPattern => ({ name, symbols })),
  )
  const matcher = patterns.length === 0 ? undefined : new Matcher(patterns)
  const openScan = () => (matcher === undefined ? EMPTY_SCAN : new StreamScan(matcher))
  return {
    isEmpty: matcher === undefined,
    openScan,
    findIn: (content) => {
      const scan = openScan()
      scan.push(Buffer.from(content))
      return scan.found()
    },
  }
}

const EMPTY_SCAN: SecretScan = { reset: () => {}, push: () => {}, found: () => undefined }

// ---- forms -------------------------------------------------------------------------------------------------------

interface SecretPattern {
  readonly name: string
  readonly symbols: Uint8Array
}

function patternsOf(secret: string): Uint8Array[] {
  const bytes = Buffer.from(secret.trim())
  if (symbolsOf(bytes).length < SYMBOLS_MIN) return []
  const distinct = new Set(secretForms(bytes).map((text) => text.toLowerCase().replace(/[^a-z0-9]/g, '')))
  return [...distinct]
    .filter(({ length }) => length >= SYMBOLS_MIN)
    .map((text) => withoutEscapeLetter(symbolsOf(Buffer.from(text))))
}
/** Two pieces stand for a longer secret. Both lie behind its beginning, which other tokens may share. */
const WHOLE_BYTES_MAX = 128
const PIECE_BYTES = 64
const BYTES_BEHIND_LAST_PIECE = 32

/** Writes a secret in the forms in which programs usually do, as texts to search for. */
function secretForms(secret: Buffer): string[] {
  return piecesOf(secret).flatMap((piece) => [
    ...encodedForms(piece),
    ...encodedTwice(piece),
    ...inText(piece.toString()),
  ])
}

function piecesOf(bytes: Buffer): Buffer[] {
  if (bytes.length <= WHOLE_BYTES_MAX) return [bytes]
  const middle = Math.floor((bytes.length - PIECE_BYTES) / 2)
  const last = bytes.length - PIECE_BYTES - BYTES_BEHIND_LAST_PIECE
  return [middle, last].map((from) => bytes.subarray(from, from + PIECE_BYTES))
}

/** As it is, backwards, in an address and in a form. */
function inText(text: string): string[] {
  const inForm = new URLSearchParams({ s: text }).toString().slice('s='.length)
  return [text, [...text].reverse().join(''), encodeURIComponent(text), inForm]
}

/** Base64 (also for addresses), and each byte as a number: `73`, `%73`, `\x73`, `0x73`, `\u0073`, `115,`. */
function encodedForms(bytes: Buffer): string[] {
  const hexBytes = [...bytes].map((byte) => byte.toString(16).padStart(2, '0'))
  const asNumbers = ['', 'x', '0x', 'u00'].map((mark) => hexBytes.map((hex) => mark + hex).join(''))
  return [...inBase64(bytes), ...asNumbers, [...bytes].join('')]
}

/** A program encodes what another has encoded: a header with a login in a dump, or a login file in a manifest. */
function encodedTwice(bytes: Buffer): string[] {
  const inner = inBase64(bytes).flatMap((text) => [text, text.replaceAll('+', '-').replaceAll('/', '_')])
  return [...new Set(inner)].flatMap((text) => encodedForms(Buffer.from(text)))
}

/** After 0, 1 or 2 other bytes, without the characters that depend on neighbouring bytes. */
function inBase64(bytes: Buffer): string[] {
  return [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const isWhole = (before + bytes.length) % 3 === 0
    return text.slice(before === 0 ? 0 : before + 1, isWhole ? undefined : -1)
  })
}

// ---- symbols -----------------------------------------------------------------------------------------------------

/** Digits are 1 to 10, letters of either case 11 to 36; 0 is dropped. */
const SYMBOLS = new Uint8Array(256)
for (let n = 0; n < 36; n += 1) {
  const character = n.toString(36)
  for (const each of [character, character.toUpperCase()]) SYMBOLS[each.charCodeAt(0)] = n + 1
}
const SYMBOL_COUNT = 37
const BACKSLASH = 0x5c
/** `\n`, `\r` and `\t` are white space that a program has written down, so their letters are dropped too. */
const ESCAPE_LETTERS: readonly number[] = [...'nrt'].map((letter) => letter.charCodeAt(0))
const ESCAPED_SYMBOLS = ESCAPE_LETTERS.map((letter) => SYMBOLS[letter])

function symbolsOf(text: Uint8Array): Uint8Array {
  return Uint8Array.from(text, (byte) => SYMBOLS[byte] ?? 0).filter((symbol) => symbol !== 0)
}

/** A backslash before the secret would make its first letter look like an escape. */
function withoutEscapeLetter(symbols: Uint8Array): Uint8Array {
  return ESCAPED_SYMBOLS.includes(symbols[0]) ? symbols.subarray(1) : symbols
}

// ---- matching ----------------------------------------------------------------------------------------------------

/** More would make the jumps longer and the table of jumps fuller. */
const WINDOW_MAX = 20
const GRAM = 3

/** Finds many patterns at once, by Wu and Manber: the last three symbols of a window tell how far it may jump. */
class Matcher {
  readonly longest: number
  readonly #patterns: readonly SecretPattern[]
  readonly #window: number
  readonly #jumps = new Uint8Array(SYMBOL_COUNT ** GRAM)
  /** The patterns whose window ends with these symbols. */
  readonly #endings = new Map<number, SecretPattern[]>()

  constructor(patterns: readonly SecretPattern[]) {
    this.#patterns = patterns
    this.longest = Math.max(...patterns.map(({ symbols }) => symbols.length))
    this.#window = Math.min(WINDOW_MAX, ...patterns.map(({ symbols }) => symbols.length))
    this.#jumps.fill(this.#window - GRAM + 1)
    for (const pattern of this.#patterns) this.#addPattern(pattern)
  }

  #addPattern(pattern: SecretPattern): void {
    for (let end = GRAM - 1; end < this.#window; end += 1) {
      const gram = gramAt(pattern.symbols, end)
      this.#jumps[gram] = Math.min(this.#jumps[gram] ?? 0, this.#window - 1 - end)
    }
    const last = gramAt(pattern.symbols, this.#window - 1)
    this.#endings.set(last, [...(this.#endings.get(last) ?? []), pattern])
  }

  /** The first pattern that lies within the first `length` symbols. */
  find(symbols: Uint8Array, length: number): string | undefined {
    const jumps = this.#jumps
    for (let end = this.#window - 1; end < length; ) {
      const gram = gramAt(symbols, end)
      const jump = jumps[gram] ?? 1
      if (jump > 0) {
        end += jump
        continue
      }
      const start = end - this.#window + 1
      for (const pattern of this.#endings.get(gram) ?? [])
        if (isAt(pattern.symbols, symbols, start, length)) return pattern.name
      end += 1
    }
    return undefined
  }
}

function gramAt(symbols: Uint8Array, end: number): number {
  const first = (symbols[end - 2] ?? 0) * SYMBOL_COUNT + (symbols[end - 1] ?? 0)
  return first * SYMBOL_COUNT + (symbols[end] ?? 0)
}

function isAt(pattern: Uint8Array, symbols: Uint8Array, start: number, length: number): boolean {
  if (start + pattern.length > length) return false
  for (let n = 0; n < pattern.length; n += 1) if (pattern[n] !== symbols[start + n]) return false
  return true
}

const BYTES_AT_ONCE_MAX = 64 * 1024

class StreamScan implements SecretScan {
  readonly #matcher: Matcher
  /** The end of what was searched, in which a pattern may begin, then the next symbols. */
  readonly #symbols: Uint8Array
  #length = 0
  #isAfterBackslash = false
  #found: string | undefined

  constructor(matcher: Matcher) {
    this.#matcher = matcher
    this.#symbols = new Uint8Array(BYTES_AT_ONCE_MAX + matcher.longest)
  }

  reset(): void {
    this.#length = 0
    this.#isAfterBackslash = false
    this.#found = undefined
  }

  found(): string | undefined {
    return this.#found
  }

  push(piece: Uint8Array): void {
    for (let from = 0; from < piece.length && this.#found === undefined; from += BYTES_AT_ONCE_MAX) {
      this.#append(piece.subarray(from, from + BYTES_AT_ONCE_MAX))
      this.#found = this.#matcher.find(this.#symbols, this.#length)
      this.#dropSearched()
    }
  }

  #append(bytes: Uint8Array): void {
    const symbols = this.#symbols
    let length = this.#length
    let isAfterBackslash = this.#isAfterBackslash
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at] ?? 0
      const symbol = SYMBOLS[byte] ?? 0
      if (isAfterBackslash) {
        isAfterBackslash = false
        if (ESCAPE_LETTERS.includes(byte)) continue
      } else if (byte === BACKSLASH) isAfterBackslash = true
      // Without a branch, because in binary content nobody could predict it.
      symbols[length] = symbol
      length += symbol === 0 ? 0 : 1
    }
    this.#length = length
    this.#isAfterBackslash = isAfterBackslash
  }

  #dropSearched(): void {
    const kept = Math.min(this.#length, this.#matcher.longest - 1)
    this.#symbols.copyWithin(0, this.#length - kept, this.#length)
    this.#length = kept
  }
}
