/**
 * Reads and writes the frames of a WebSocket client (RFC 6455), of which a host uses few: texts, pings, closes.
 *
 * Node 20 has no WebSocket of its own, and the library that has one costs a client more time than all its other code.
 */

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

export interface Frame {
  readonly opcode: number
  readonly payload: Buffer
}

const FINAL = 0x80
const MASKED = 0x80
const LENGTH_16 = 126
const LENGTH_64 = 127
const NO_BYTES = Buffer.alloc(0)

/** A frame to the host; clients mask every frame. */
export function encodeFrame(opcode: number, payload: Buffer): Buffer {
  const extra = payload.length < LENGTH_16 ? 0 : payload.length <= 0xffff ? 2 : 8
  const head = Buffer.alloc(2 + extra)
  head[0] = FINAL | opcode
  head[1] = MASKED | (extra === 0 ? payload.length : extra === 2 ? LENGTH_16 : LENGTH_64)
  if (extra === 2) head.writeUInt16BE(payload.length, 2)
  if (extra === 8) head.writeBigUInt64BE(BigInt(payload.length), 2)
  const mask = globalThis.crypto.getRandomValues(Buffer.allocUnsafe(4))
  const masked = Buffer.alloc(payload.length)
  for (let at = 0; at < payload.length; at++) masked[at] = (payload[at] ?? 0) ^ (mask[at & 3] ?? 0)
  return Buffer.concat([head, mask, masked])
}

/** Cuts bytes from the host into whole messages. */
export class FrameReader {
  #chunks: Buffer[] = []
  #bytes = 0
  /** The parts of a message that is not complete. */
  #parts: Buffer[] = []
  #partBytes = 0
  #partOpcode: number | undefined

  readonly #bytesMax: number

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Returns the messages and control frames that are complete now. Throws for what no host sends. */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    const frames: Frame[] = []
    for (let frame = this.#next(); frame !== undefined; frame = this.#next()) {
      const whole = this.#join(frame)
      if (whole !== undefined) frames.push(whole)
    }
    return frames
  }

  #next(): (Frame & { readonly isFinal: boolean }) | undefined {
    const head = this.#peek(10)
    const [first, second] = head
    if (first === undefined || second === undefined) return undefined
    if ((first & 0x70) !== 0 || (second & MASKED) !== 0) throw new Error('not a frame of a WebSocket server')
    const size = sizeOf(head, second)
    if (size === undefined) return undefined
    if (size.length + this.#partBytes > this.#bytesMax)
      throw new Error(`a message of over ${this.#bytesMax} bytes`)
    if (this.#bytes < size.head + size.length) return undefined
    this.#take(size.head)
    return { isFinal: (first & FINAL) !== 0, opcode: first & 0x0f, payload: this.#take(size.length) }
  }

  /** Control frames may stand between the parts of a message. */
  #join({ isFinal, opcode, payload }: Frame & { readonly isFinal: boolean }): Frame | undefined {
    if (opcode >= OPCODE.close) return { opcode, payload }
    this.#partOpcode ??= opcode
    this.#parts.push(payload)
    this.#partBytes += payload.length
    if (!isFinal) return undefined
    const whole = {
      opcode: this.#partOpcode,
      payload: this.#parts.length === 1 ? payload : Buffer.concat(this.#parts),
    }
    this.#parts = []
    this.#partBytes = 0
    this.#partOpcode = undefined
    return whole
  }

  #peek(count: number): Buffer {
    const [first = NO_BYTES] = this.#chunks
    if (first.length >= count || this.#chunks.length < 2) return first.subarray(0, count)
    // A long message that is still arriving is joined once for each head, not once for each chunk.
    return Buffer.concat(this.#chunks.slice(0, 1 + this.#chunksFor(count))).subarray(0, count)
  }

  #chunksFor(count: number): number {
    let [chunks, bytes] = [0, this.#chunks[0]?.length ?? 0]
    while (bytes < count && chunks + 1 < this.#chunks.length) bytes += this.#chunks[++chunks]?.length ?? 0
    return chunks
  }

  #take(count: number): Buffer {
    const [first = NO_BYTES] = this.#chunks
    const all = first.length >= count ? first : Buffer.concat(this.#chunks)
    if (all !== first) this.#chunks = [all]
    this.#bytes -= count
    const rest = all.subarray(count)
    if (rest.length === 0) this.#chunks.shift()
    else this.#chunks[0] = rest
    return all.subarray(0, count)
  }
}

/** The bytes of a frame's head and of its payload; undefined when the head is not complete. */
function sizeOf(
  head: Buffer,
  second: number,
): { readonly head: number; readonly length: number } | undefined {
  const short = second & 0x7f
  if (short < LENGTH_16) return { head: 2, length: short }
  const bytes = short === LENGTH_16 ? 2 : 8
  if (head.length < 2 + bytes) return undefined
  return { head: 2 + bytes, length: bytes === 2 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2)) }
}
