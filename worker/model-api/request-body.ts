/**
 * `readRequestBody` receives the whole body of a request, because a request is judged before it is sent on.
 *
 * Bodies are bounded one by one and together. A compressed body is unpacked, so that it can be read. The rest of the
 * proxy sees one JSON object; what leaves is written anew from it, so no two programs read it differently.
 */
import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import { no, type Result, yes } from '../../core/result.ts'
import { MODEL_API_BODY_BYTES_MAX, MODEL_API_HELD_BYTES_MAX } from '../../protocol/limits.ts'
import { type JsonObject, parseObject } from '../agents/json-lines.ts'
import { foldLongStrings } from './long-strings.ts'
import { ModelRefusal } from './model-errors.ts'

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
