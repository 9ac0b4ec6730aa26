/**
 * Ids that sort as text in the order of their creation and never repeat.
 *
 * An id is a UUID of version 7: 48 bits of wall time, then 74 random bits. Within one millisecond, and while the wall
 * clock is behind its highest value, the digits behind the version are counted up instead. The order therefore holds
 * within a process whatever the clock does, and the first 16 digits tell such ids apart. Ids are not secret.
 */
import type { Clock, RandomSource } from './ports/clock.ts'

const TIME_MAX = 2 ** 48 - 1
/** Bytes that hold the random bits; the 6 highest bits are unused. */
const RANDOM_BYTES = 10

/** Returns 32 hex digits. `bytes`: at least 10 random bytes; the highest six bits of the first are unused. */
export function uuidv7Hex(now: number, bytes: Uint8Array): string {
  if (bytes.length < RANDOM_BYTES)
    throw new RangeError(`an id needs ${RANDOM_BYTES} bytes, got ${bytes.length}`)
  if (!(now >= 0 && now <= TIME_MAX)) throw new RangeError(`the time of an id is from 0 to 2^48, got ${now}`)
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, RANDOM_BYTES)
  const time = Math.floor(now).toString(16).padStart(12, '0')
  const version = 0x7000 | ((view.readUInt16BE(0) & 0x3ff) << 2) | (view.readUInt8(2) >> 6)
  const variant = 0x80 | (view.readUInt8(2) & 0x3f)
  return `${time}${version.toString(16)}${variant.toString(16)}${view.toString('hex', 3)}`
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

/** The time and the version, which change once per millisecond. */
const HEAD_DIGITS = 13
/** The digits behind them are counted up; the rest stays as it was drawn. */
const COUNTED_DIGITS = 3
const COUNTED_END = 16 ** COUNTED_DIGITS
/** Drawn at once, because drawing costs as much as everything else about an id, whatever the number of bytes. */
const DRAWN_BYTES = 64 * RANDOM_BYTES

function createCounter(clock: Pick<Clock, 'now'>, random: Pick<RandomSource, 'bytes'>): () => string {
  let time = -1
  let [head, tail] = ['', '']
  let count = 0
  let drawn: Uint8Array = new Uint8Array()
  const begin = (at: number) => {
    if (drawn.length < RANDOM_BYTES) drawn = random.bytes(DRAWN_BYTES)
    const whole = uuidv7Hex(at, drawn)
    drawn = drawn.subarray(RANDOM_BYTES)
    time = at
    head = whole.slice(0, HEAD_DIGITS)
    count = Number.parseInt(whole.slice(HEAD_DIGITS, HEAD_DIGITS + COUNTED_DIGITS), 16)
    tail = whole.slice(HEAD_DIGITS + COUNTED_DIGITS)
  }
  return () => {
    const now = Math.floor(clock.now())
    if (now > time) begin(now)
    // When the counted digits are used up, borrow the next millisecond.
    else if (++count === COUNTED_END) begin(time + 1)
    return head + count.toString(16).padStart(COUNTED_DIGITS, '0') + tail
  }
}

// ---- timestamps --------------------------------------------------------------------------------------------------

/**
 * Creates the function that returns the wall time as ISO text. The text is cached per millisecond, because a busy
 * host asks thousands of times in one millisecond.
 */
export function createTimestamps(clock: Pick<Clock, 'now'>): () => string {
  let at = Number.NaN
  let text = ''
  return () => {
    const now = clock.now()
    if (now !== at) [at, text] = [now, new Date(now).toISOString()]
    return text
  }
}
