/** The frames of a WebSocket, as the client reads and writes them. */
import { createHash } from 'node:crypto'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { encodeFrame, type Frame, FrameReader, OPCODE } from '../../../client/websocket-frames.ts'
import { drawSeed } from '../../support/random.ts'

const SEED = drawSeed()
const BYTES_MAX = 200_000

/** A frame as a server sends it: without a mask. */
function serverFrame(opcode: number, payload: Buffer, isFinal = true): Buffer {
  const long = payload.length > 0xffff ? 8 : payload.length > 125 ? 2 : 0
  const head = Buffer.alloc(2 + long)
  head[0] = (isFinal ? 0x80 : 0) | opcode
  head[1] = long === 0 ? payload.length : long === 2 ? 126 : 127
  if (long === 2) head.writeUInt16BE(payload.length, 2)
  if (long === 8) head.writeBigUInt64BE(BigInt(payload.length), 2)
  return Buffer.concat([head, payload])
}

function readAll(bytes: Buffer, sizes: readonly number[], bytesMax = BYTES_MAX): Frame[] {
  const reader = new FrameReader(bytesMax)
  const found: Frame[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    found.push(...reader.push(bytes.subarray(at, at + size)))
    at += size
  }
  return found
}

/** Comparing long buffers byte by byte takes the test seconds. */
const digest = ({ opcode, payload }: Frame): string =>
  `${opcode} ${payload.length} ${createHash('sha1').update(payload).digest('hex')}`

const lengths = fc.constantFrom(0, 1, 2, 125, 126, 127, 1000, 65_535, 65_536, 70_000)
const message = fc.record({
  length: lengths,
  parts: fc.integer({ min: 1, max: 4 }),
  isPinged: fc.boolean(),
})

test('messages arrive whole, however they are split into parts and chunks', () => {
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 30_000 }), { minLength: 1, maxLength: 5 }),
      (messages, sizes) => {
        const expected: Frame[] = []
        const bytes = messages.flatMap(({ length, parts, isPinged }, number) => {
          const payload = Buffer.alloc(length, number + 1)
          const size = Math.ceil(length / parts) || 1
          const pieces = Array.from({ length: parts }, (_, part) =>
            payload.subarray(part * size, (part + 1) * size),
          )
          const ping = { opcode: OPCODE.ping, payload: Buffer.from('still there?') }
          if (isPinged) expected.push(ping)
          expected.push({ opcode: OPCODE.text, payload })
          return pieces.flatMap((part, at) => [
            ...(isPinged && at === 0 ? [serverFrame(ping.opcode, ping.payload)] : []),
            serverFrame(at === 0 ? OPCODE.text : OPCODE.continuation, part, at === pieces.length - 1),
          ])
        })
        expect(readAll(Buffer.concat(bytes), sizes).map(digest)).toEqual(expected.map(digest))
      },
    ),
    { seed: SEED, numRuns: 40 },
  )
})

test.each([0, 1, 125, 126, 65_535, 65_536])(
  'a message of %d bytes is masked, and its length is told',
  (length) => {
    const payload = Buffer.alloc(length, 'x')
    const frame = encodeFrame(OPCODE.text, payload)
    const head = length < 126 ? 2 : length <= 0xffff ? 4 : 10
    expect(frame[0]).toBe(0x81)
    expect((frame[1] ?? 0) & 0x80).toBe(0x80)
    const mask = frame.subarray(head, head + 4)
    const unmasked = frame.subarray(head + 4).map((byte, at) => byte ^ (mask[at % 4] ?? 0))
    expect(Buffer.from(unmasked)).toEqual(payload)
  },
)

test('a message over the limit is refused by its head, also in parts', () => {
  expect(() => readAll(serverFrame(OPCODE.text, Buffer.alloc(101)).subarray(0, 2), [10], 100)).toThrow(
    'over 100',
  )
  const parts = [serverFrame(OPCODE.text, Buffer.alloc(60), false), serverFrame(0, Buffer.alloc(60))]
  expect(() => readAll(Buffer.concat(parts), [500], 100)).toThrow('over 100')
})

test('what no server sends is refused', () => {
  expect(() => readAll(encodeFrame(OPCODE.text, Buffer.from('masked')), [100])).toThrow('not a frame')
  expect(() => readAll(Buffer.from([0xc1, 0]), [100])).toThrow('not a frame')
})
