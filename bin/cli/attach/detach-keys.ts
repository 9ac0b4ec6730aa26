/**
 * Finds the detach keys in typed input.
 *
 * All other input passes unchanged and in order. The first keys of the sequence are held back until the next key decides
 * whether it continues. A program in the session may have switched to a keyboard protocol in which Ctrl-] is not one
 * byte, so every encoding of a key is recognized: the byte, `CSI 93;5u`, `CSI 27;5;93~`.
 */
import { no, type Result, yes } from '../../../core/result.ts'

interface DetachKey {
  readonly ctrl: boolean
  /** The character code, in lower case. */
  readonly code: number
}

export interface DetachKeys {
  readonly keys: readonly DetachKey[]
  /** The sequence as shown to people: `Ctrl-] d`. */
  readonly name: string
}

/** Agents use most Ctrl-letter keys, and plain letters are input. Ctrl-] is the traditional escape key of telnet. */
export const DEFAULT_DETACH_KEYS = 'ctrl-],d'
const KEYS_MAX = 8
/** Ctrl-[ is excluded, because it is Escape, with which many keys begin. */
const KEY_PATTERN = /^(?<ctrl>ctrl-)?(?<sign>[\x21-\x7e])$/i
const CTRL_SIGNS = /^[a-z@\\\]^_]$/

export function readDetachKeys(option: string): Result<DetachKeys> {
  const wrong = (what: string) =>
    no('invalid', `--detach-keys: ${what}; write them like ${DEFAULT_DETACH_KEYS}`)
  const words = option.split(',')
  if (words.length > KEYS_MAX) return wrong(`more than ${KEYS_MAX} keys`)
  const keys: (DetachKey | undefined)[] = words.map(parseKeyWord)
  if (!keys.every((key) => key !== undefined))
    return wrong(`each must be a character, or ctrl- and one of a–z @ \\ ] ^ _`)
  if (keys[0]?.ctrl !== true)
    return wrong('the first key must have ctrl-, because a plain first key could not be typed any more')
  return yes({ keys, name: keys.map(keyName).join(' ') })
}

function parseKeyWord(word: string): DetachKey | undefined {
  const { ctrl, sign = '' } = KEY_PATTERN.exec(word.trim())?.groups ?? {}
  if (sign === '') return undefined
  if (ctrl === undefined) return { ctrl: false, code: sign.charCodeAt(0) }
  const small = sign.toLowerCase()
  return CTRL_SIGNS.test(small) ? { ctrl: true, code: small.charCodeAt(0) } : undefined
}

function keyName({ ctrl, code }: DetachKey): string {
  const sign = String.fromCharCode(code)
  return ctrl ? `Ctrl-${sign.toUpperCase()}` : sign
}

// ---- while typing --------------------------------------------------------------------------------------------------

interface DetachResult {
  /** The input to send to the session. */
  readonly text: string
  /** The whole sequence was typed; input after it is dropped. */
  readonly detach: boolean
}

/** A key as xterm encodes it with a modifier, as kitty encodes it (with alternate codes and the event kind), or one character. */
const KEY_SEQUENCE = new RegExp(
  [
    '\\x1b\\[27;(?<mods1>\\d+);(?<code1>\\d+)~',
    '\\x1b\\[(?<code2>\\d+)[:\\d]*(?:;(?<mods2>\\d*)(?::(?<kind>\\d+))?)?(?:;[:\\d]*)?u',
    '.',
  ].join('|'),
  'gsu',
)
/** The modifier bits of Ctrl, and of the locks, which are ignored. */
const CTRL = 4
const LOCKS = 64 | 128
const RELEASED = '3'

interface HeldKey {
  readonly key: DetachKey | undefined
  text: string
}

export class DetachKeyWatcher {
  readonly #keys: readonly DetachKey[]
  /** The keys of the sequence typed so far. */
  readonly #held: HeldKey[] = []

  constructor({ keys }: DetachKeys) {
    this.#keys = keys
  }

  filter(chunk: string): DetachResult {
    let text = ''
    for (const match of chunk.matchAll(KEY_SEQUENCE)) {
      text += this.#processKey(match)
      if (this.#held.length === this.#keys.length) return { text, detach: true }
    }
    return { text, detach: false }
  }

  /** Returns the input that is not held back (any more). */
  #processKey(match: RegExpMatchArray): string {
    const last = this.#held.at(-1)
    if (last !== undefined && isRelease(match)) {
      // The release of a key does not interrupt the sequence; keep it with its key.
      last.text += match[0]
      return ''
    }
    this.#held.push({ key: isRelease(match) ? undefined : parseKey(match), text: match[0] })
    let free = ''
    while (!this.#isBeginning()) free += this.#held.shift()?.text ?? ''
    return free
  }

  #isBeginning(): boolean {
    return this.#held.every(({ key }, at) => isSame(key, this.#keys[at]))
  }
}

const isRelease = ({ groups }: RegExpMatchArray): boolean => groups?.kind === RELEASED

function parseKey({ 0: text, groups = {} }: RegExpMatchArray): DetachKey | undefined {
  const code = groups.code1 ?? groups.code2
  if (code === undefined) return parseByte(text)
  const mods = (Number(groups.mods1 ?? groups.mods2 ?? '') || 1) - 1
  const known = mods & ~LOCKS
  if (known !== 0 && known !== CTRL) return undefined
  return { ctrl: known === CTRL, code: Number(code) }
}

function parseByte(text: string): DetachKey {
  const code = text.codePointAt(0) ?? 0
  if (code >= 0x20) return { ctrl: false, code }
  const sign = code + 0x40
  const isAlphabetic = sign > 0x40 && sign <= 0x5a
  return { ctrl: true, code: isAlphabetic ? sign + 0x20 : sign }
}

const isSame = (key: DetachKey | undefined, wanted: DetachKey | undefined): boolean =>
  key !== undefined && key.ctrl === wanted?.ctrl && key.code === wanted.code
