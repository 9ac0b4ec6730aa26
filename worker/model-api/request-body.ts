/**
 * `BodyReader` receives the whole body of a request, because a request is judged before it is sent on.
 *
 * Bodies are bounded one by one and together. A compressed body is unpacked, so that it can be read. The rest of the
 * proxy sees one JSON object; what leaves is written anew from it, so no two programs read it differently.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import { no, type Result, yes } from '../../core/result.ts'
import { MODEL_API_BODY_BYTES_MAX } from '../../protocol/limits.ts'
import { type JsonObject, parseObject } from '../agents/json-lines.ts'
import type { ModelErrorStyle } from './model-access.ts'

/** Bytes of all bodies that a run's requests hold in the worker at once. */
export const MODEL_API_HELD_BYTES_MAX = 192 * 1024 * 1024
/** The text of a body without its files, which the worker parses in one turn: twice the longest context. */
const MODEL_API_PARSED_BYTES_MAX = 8 * 1024 * 1024
/** Quotes, commas and opening brackets of a body: they bound the time and the memory of parsing. */
export const MODEL_API_PARSED_PARTS_MAX = 600_000

const MIB = 1024 * 1024
export const BODY_TOO_LARGE = `a request may have at most ${MODEL_API_BODY_BYTES_MAX / MIB} MiB`
const TOO_MUCH_HELD = `the requests of this run hold ${MODEL_API_HELD_BYTES_MAX / MIB} MiB already`

export interface RequestBody {
  /** Long strings are cut; `write` makes them whole again. */
  readonly value: JsonObject
  /** Returns undefined when the value is nested too deep to be written. */
  write(value: JsonObject): WrittenBody | undefined
}

export interface WrittenBody {
  readonly bytes: Buffer
  readonly keepsLong: boolean
}

/** How requests ask their vendor to keep input longer than some minutes. */
const KEEPS_LONG = /"(?:ttl|prompt_cache_retention)":"\d+h"/

/** Bounds what all bodies of a run take up together. */
export class BodyReader {
  #heldBytes = 0
  #unpacked: Promise<unknown> = Promise.resolve()

  /** Rejects with a `ModelRefusal`. `release` gives the room back; call it when the request is over. */
  async read(request: IncomingMessage): Promise<{ body: RequestBody; release: () => void }> {
    const held = { bytes: 0 }
    const release = () => {
      this.#heldBytes -= held.bytes
      held.bytes = 0
    }
    try {
      const received = await this.#receive(request, held)
      const body = parseBody(await this.#unpack(received, request.headers['content-encoding'], held))
      if (!body.ok)
        throw new ModelRefusal('request', `this is no request to a model: ${body.refusal.message}`)
      return { body: body.value, release }
    } catch (error) {
      release()
      throw error
    }
  }

  async #receive(request: IncomingMessage, held: { bytes: number }): Promise<Buffer> {
    const pieces: Buffer[] = []
    // The refusal of a large body must still reach the agent.
    for await (const piece of request.iterator({ destroyOnReturn: false })) {
      pieces.push(piece)
      this.#hold(held, piece.length)
      if (held.bytes > MODEL_API_BODY_BYTES_MAX) throw new ModelRefusal('size', BODY_TOO_LARGE)
    }
    return Buffer.concat(pieces)
  }

  /** Bodies are unpacked one after another, because a short one can become long before its length is known. */
  async #unpack(packed: Buffer, encoding = 'identity', held: { bytes: number }): Promise<Buffer> {
    if (encoding === 'identity') return packed
    const unpacking = this.#unpacked.then(async () => {
      const bytes = await unpack(packed, encoding)
      this.#hold(held, bytes.length - packed.length)
      return bytes
    })
    this.#unpacked = unpacking.catch(() => {})
    return unpacking
  }

  #hold(held: { bytes: number }, bytes: number): void {
    held.bytes += bytes
    this.#heldBytes += bytes
    if (this.#heldBytes > MODEL_API_HELD_BYTES_MAX) throw new ModelRefusal('busy', TOO_MUCH_HELD)
  }
}

const UNPACKERS = new Map([
  ['gzip', promisify(gunzip)],
  ['br', promisify(brotliDecompress)],
  ['deflate', promisify(inflate)],
])

async function unpack(bytes: Buffer, encoding: string): Promise<Buffer> {
  const unpacker = UNPACKERS.get(encoding)
  if (unpacker === undefined)
    throw new ModelRefusal(
      'request',
      'its body is packed in a way that the worker can’t read; send it as it is',
    )
  try {
    return await unpacker(bytes, { maxOutputLength: MODEL_API_BODY_BYTES_MAX })
  } catch {
    throw new ModelRefusal('size', `its packed body is damaged, or ${BODY_TOO_LARGE}`)
  }
}

export function parseBody(bytes: Buffer): Result<RequestBody> {
  const folded = foldLongStrings(bytes)
  const value = parseObject(folded.text)
  if (value === undefined) return no('invalid', 'its body is no JSON object')
  return yes({
    value,
    write: (written) => {
      const text = stringify(written)
      if (text === undefined) return undefined
      return { bytes: folded.unfold(text), keepsLong: KEEPS_LONG.test(text) }
    },
  })
}

function stringify(value: JsonObject): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

// ---- long strings --------------------------------------------------------------------------------------------------

interface FoldedText {
  /** Valid JSON if the whole text is. */
  readonly text: string
  unfold(text: string): Buffer
}

const STRING_BYTES_MAX = 16 * 1024
/** Enough to recognize a `data:` address with its media type. */
const HEAD_BYTES = 64
const QUOTE = 0x22
const BACKSLASH = 0x5c
/** The comma and the opening brackets: each begins a value. */
const OPENS_VALUE = new Set([0x2c, 0x5b, 0x7b])

/**
 * Takes the long strings out of a JSON text, so that a request with large files is quick to parse.
 *
 * Each long string keeps its beginning, followed by a mark that nobody outside can guess; `unfold` puts the bytes back
 * as they came. What remains to parse is bounded in bytes and in parts, because a sandbox chooses the text.
 *
 * Throws a `ModelRefusal` when too much remains.
 */
function foldLongStrings(bytes: Buffer): FoldedText {
  const mark = `${randomUUID()}#`
  const [kept, tails]: [Buffer[], Buffer[]] = [[], []]
  let [from, parts] = [0, 0]
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (OPENS_VALUE.has(byte)) parts += 1
    if (byte === QUOTE) {
      const { end, quotes } = endOfString(bytes, at + 1, MODEL_API_PARSED_PARTS_MAX - parts)
      parts += quotes
      if (end - at > STRING_BYTES_MAX) {
        const tailAt = endOfHead(bytes, at + 1)
        kept.push(bytes.subarray(from, tailAt), Buffer.from(`${mark}${tails.length};`))
        tails.push(bytes.subarray(tailAt, end))
        from = end
      }
      at = end
    }
    if (parts > MODEL_API_PARSED_PARTS_MAX) throw new ModelRefusal('size', 'its body has too many parts')
  }
  const folded = Buffer.concat([...kept, bytes.subarray(from)])
  if (folded.length > MODEL_API_PARSED_BYTES_MAX) throw new ModelRefusal('size', 'its body has too much text')
  return { text: folded.toString('utf8'), unfold: (text) => putBack(text, mark, tails) }
}

/** The index of the closing quote, or the length of an unclosed text; counts the quotes on the way. */
function endOfString(bytes: Buffer, from: number, quotesMax: number): { end: number; quotes: number } {
  let quotes = 0
  for (let at = from; quotes <= quotesMax; at += 1) {
    at = bytes.indexOf(QUOTE, at)
    if (at < 0) break
    quotes += 1
    let slashes = 0
    while (at - slashes > from && bytes[at - slashes - 1] === BACKSLASH) slashes += 1
    if (slashes % 2 === 0) return { end: at, quotes }
  }
  return { end: bytes.length, quotes }
}

/** The head ends before anything that a cut could break: an escape, or a character of several bytes. */
function endOfHead(bytes: Buffer, from: number): number {
  let at = from
  while (at < from + HEAD_BYTES && (bytes[at] ?? 0) < 0x80 && bytes[at] !== BACKSLASH) at += 1
  return at
}

function putBack(text: string, mark: string, tails: readonly Buffer[]): Buffer {
  const [first = '', ...rest] = text.split(mark)
  const pieces = rest.flatMap((piece) => {
    const end = piece.indexOf(';')
    return [tails[Number(piece.slice(0, end))] ?? Buffer.alloc(0), Buffer.from(piece.slice(end + 1))]
  })
  return Buffer.concat([Buffer.from(first), ...pieces])
}

// ---- refusals ------------------------------------------------------------------------------------------------------

/** `budget`: nothing more may be spent. `upstream`: the vendor gave no usable answer. */
export type ModelErrorKind = 'request' | 'size' | 'busy' | 'budget' | 'upstream'

/** The worker answers a request itself, and says why. */
export class ModelRefusal extends Error {
  readonly kind: ModelErrorKind

  constructor(kind: ModelErrorKind, why: string) {
    super(why)
    this.kind = kind
  }
}

interface ModelErrorForm {
  readonly status: number
  readonly anthropic: string
  readonly google: string
}

/** Agents try again after `busy` and `upstream` only. */
const FORMS: Readonly<Record<ModelErrorKind, ModelErrorForm>> = {
  request: { status: 403, anthropic: 'permission_error', google: 'PERMISSION_DENIED' },
  size: { status: 413, anthropic: 'request_too_large', google: 'INVALID_ARGUMENT' },
  busy: { status: 503, anthropic: 'overloaded_error', google: 'UNAVAILABLE' },
  budget: { status: 403, anthropic: 'permission_error', google: 'PERMISSION_DENIED' },
  upstream: { status: 502, anthropic: 'api_error', google: 'UNAVAILABLE' },
}

interface ModelErrorReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Words a refusal in the vendor's own form, so that agents report it like the vendor's errors. */
export function modelError(style: ModelErrorStyle, kind: ModelErrorKind, why: string): ModelErrorReply {
  const body = JSON.stringify(errorBody(style, kind, `switchyard: ${why}`))
  return {
    status: FORMS[kind].status,
    headers: {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      ...(kind === 'budget' ? { 'x-should-retry': 'false' } : {}),
      connection: 'close',
    },
    body,
  }
}

function errorBody(style: ModelErrorStyle, kind: ModelErrorKind, message: string): object {
  const { status, anthropic, google } = FORMS[kind]
  if (style === 'anthropic') return { type: 'error', error: { type: anthropic, message } }
  if (style === 'google') return { error: { code: status, message, status: google } }
  return { error: { message, type: anthropic, param: null, code: `switchyard_${kind}` } }
}
