/**
 * Ids that sort as text in the order of their creation and never repeat.
 *
 * An id is a UUID of version 7: 48 bits of wall time, then 74 random bits. Within one millisecond, and while the wall
 * clock is behind its highest value, the last digits are counted up instead. The order therefore holds within a
 * process whatever the clock does. Ids are not secret.
 */
import type { Clock, RandomSource } from './ports.ts'

const TIME_MAX = 2 ** 48 - 1
const RANDOM_BITS = 74n
/** Bytes that hold the random bits; the 6 highest bits are unused. */
const RANDOM_BYTES = 10
const RANDOM_END = 1n << RANDOM_BITS

/** Returns 32 hex digits. `bytes`: at least 10 random bytes; the highest six bits of the first are unused. */
export function uuidv7Hex(now: number, bytes: Uint8Array): string {
  return hexOf(now, randomOf(bytes))
}

export interface IdGenerator {
  run(): string
  lease(): string
  memory(): string
  followUp(): string
}

export function createIds(clock: Pick<Clock, 'now'>, random: Pick<RandomSource, 'bytes'>): IdGenerator {
  const next = createCounter(clock, random)
  return {
    run: () => `run-${next()}`,
    lease: () => `ls-${next()}`,
    memory: () => `mem-${next()}`,
    followUp: () => `fu-${next()}`,
  }
}

/** Returns the instant at which an id was created; undefined for a text that is not such an id. */
export function createdAtOf(id: string): string | undefined {
  const digits = /^[a-z]+-([0-9a-f]{12})7[0-9a-f]{19}$/.exec(id)?.[1]
  const at = new Date(Number.parseInt(digits ?? '', 16))
  return Number.isNaN(at.getTime()) || at.getUTCFullYear() > 9_999 ? undefined : at.toISOString()
}

/** These last digits are counted up; the digits before them change once per millisecond. */
const COUNTED_DIGITS = 8
const COUNTED_END = 16 ** COUNTED_DIGITS

function createCounter(clock: Pick<Clock, 'now'>, random: Pick<RandomSource, 'bytes'>): () => string {
  let time = -1
  let head = ''
  let count = 0
  const begin = (at: number) => {
    const whole = uuidv7Hex(at, random.bytes(RANDOM_BYTES))
    time = at
    head = whole.slice(0, -COUNTED_DIGITS)
    count = Number.parseInt(whole.slice(-COUNTED_DIGITS), 16)
  }
  return () => {
    const now = Math.floor(clock.now())
    if (now > time) begin(now)
    // When the counted digits are used up, borrow the next millisecond.
    else if (++count === COUNTED_END) begin(time + 1)
    return head + count.toString(16).padStart(COUNTED_DIGITS, '0')
  }
}

function randomOf(bytes: Uint8Array): bigint {
  if (bytes.length < RANDOM_BYTES)
    throw new RangeError(`an id needs ${RANDOM_BYTES} bytes, got ${bytes.length}`)
  const hex = Buffer.from(bytes.subarray(0, RANDOM_BYTES)).toString('hex')
  return BigInt(`0x${hex}`) % RANDOM_END
}

function hexOf(time: number, random: bigint): string {
  if (!(time >= 0 && time <= TIME_MAX))
    throw new RangeError(`the time of an id is from 0 to 2^48, got ${time}`)
  const [high, low] = [random >> 62n, random & ((1n << 62n) - 1n)]
  const bits = (BigInt(Math.floor(time)) << 80n) | (7n << 76n) | (high << 64n) | (2n << 62n) | low
  return bits.toString(16).padStart(32, '0')
}
