/**
 * `ReplyCompressor` compresses answers of the management interface that are long enough to be worth it, with gzip, in
 * the threads of libuv and never in a turn of the event loop.
 *
 * Whole replies are compressed one after another, so that the other threads stay free for the files of the store. The
 * batches of a long list come in a queue of their own, one in a turn, and each is compressed as it comes.
 *
 * BREACH reads a secret from the lengths of encrypted answers that also repeat an attacker's words. It is no matter
 * here: the interface is plain text on loopback, which only the superuser can listen to, and a foreign page's requests
 * are refused before they have an answer whose length it could see. No compressed answer has a secret all the same:
 * secrets are answers to POST, and only answers to GET are compressed. Artifacts, which agents write, stay plain.
 */
import { pipeline, Readable } from 'node:stream'
import { promisify } from 'node:util'
import { createGzip, gzip } from 'node:zlib'
import { TurnQueue } from '../core/turn-queue.ts'
import { type Download, type Headers, isDownload, type Reply } from './reply.ts'
import { toBytes } from './to-bytes.ts'

/** Shorter answers fit into one packet as they are. */
export const COMPRESSED_BYTES_MIN = 1024
/** Higher levels take twice the time for a tenth less. */
const LEVEL = 4

const gzipBytes = promisify(gzip)
const TEXT_TYPE = /^(application\/json|text\/)/
const ENCODED: Headers = [
  ['content-encoding', 'gzip'],
  ['vary', 'accept-encoding'],
]

export class ReplyCompressor {
  readonly #replies = new TurnQueue(setImmediate)

  /** For a client that takes gzip. A short reply that is ready stays so. */
  compress(reply: Reply | Promise<Reply | Download>): Reply | Promise<Reply | Download> {
    if (!(reply instanceof Promise)) return isLong(reply) ? this.#compressReply(reply) : reply
    return reply.then((made) => {
      if (isDownload(made)) return isList(made) ? compressDownload(made) : made
      return isLong(made) ? this.#compressReply(made) : made
    })
  }

  #compressReply({ ascii: _, ...reply }: Reply): Promise<Reply> {
    return this.#replies.run(async () => ({
      ...reply,
      body: await gzipBytes(toBytes(reply.body), { level: LEVEL }),
      headers: [...(reply.headers ?? []), ...ENCODED],
    }))
  }
}

const isLong = ({ status, type, body }: Reply): boolean =>
  status === 200 && body.length >= COMPRESSED_BYTES_MIN && TEXT_TYPE.test(type)

/** Artifacts have a size. */
const isList = ({ size, type }: Download): boolean => size === undefined && TEXT_TYPE.test(type)

const compressDownload = (list: Download): Download => ({
  ...list,
  headers: [...list.headers, ...ENCODED],
  read: () => compressChunks(list.read()),
})

/** A source that fails ends the stream with its error, and a reader that stops ends the source. */
const compressChunks = (chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> =>
  pipeline(Readable.from(chunks, { highWaterMark: 1 }), createGzip({ level: LEVEL }), () => {})

export type Encoding = 'br' | 'gzip'

/** The smaller one first. */
const ENCODINGS: readonly Encoding[] = ['br', 'gzip']

/**
 * Reads Accept-Encoding (RFC 9110 §12.5.3): the smallest of the encodings that the client takes.
 *
 * A client that names none gets the plain bytes, although the RFC would allow any: programs that never asked for
 * compressed bytes do not expect them.
 *
 * @param header the value of Accept-Encoding, empty without one
 */
export function chooseEncoding(
  header: string,
  offered: readonly Encoding[] = ENCODINGS,
): Encoding | undefined {
  if (header === '') return undefined
  const taken = new Map<string, boolean>()
  for (const item of header.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim())
    taken.set(name, !parameters.some((parameter) => /^q=0(\.0{0,3})?$/.test(parameter)))
  }
  return ENCODINGS.find((name) => offered.includes(name) && (taken.get(name) ?? taken.get('*') ?? false))
}
