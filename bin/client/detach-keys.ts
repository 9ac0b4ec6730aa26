/**
 * The keys that end an attachment, found in what is typed.
 *
 * Everything else passes untouched, and in order; the first keys of the sequence are held back only until the next
 * key tells whether it is one. A program in the session may have switched the terminal to a keyboard protocol in which
 * Ctrl-] is no longer one byte, so a key is known in all of its spellings: the byte, `CSI 93;5u`, `CSI 27;5;93~`.
 */
import { no, type Result, yes } from '../../core/result.ts'

interface DetachKey {
  readonly ctrl: boolean
  /** Of its lower-case sign. */
  readonly code: number
}

export interface DetachKeys {
  readonly keys: readonly DetachKey[]
  /** As people say them: `Ctrl-] d`. */
  readonly name: string
}

/** Agents use most of Ctrl with a letter, and a bare letter belongs to the person; Ctrl-] has been for this since telnet. */
export const DEFAULT_DETACH_KEYS = 'ctrl-],d'
const KEYS_MAX = 8
/** Ctrl-[ is Escape, with which half of all other keys begin. */
const KEY_PATTERN = /^(?<ctrl>ctrl-)?(?<sign>[\x21-\x7e])$/i
const CTRL_SIGNS = /^[a-z@\\\]^_]$/

export function readDetachKeys(said: string): Result<DetachKeys> {
  const wrong = (what: string) =>
    no('invalid', `--detach-keys: ${what}; write them like ${DEFAULT_DETACH_KEYS}`)
  const words = said.split(',')
  if (words.length > KEYS_MAX) return wrong(`more than ${KEYS_MAX} keys`)
  const keys: (DetachKey | undefined)[] = words.map(parseKeyWord)
  if (!keys.every((key) => key !== undefined))
    return wrong(`each must be a sign, or ctrl- and one of a–z @ \\ ] ^ _`)
  if (keys[0]?.ctrl !== true)
    return wrong('the first must be one with ctrl-, or it could not be typed any more')
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

export interface DetachResult {
  /** For the session. */
  readonly text: string
  /** The last key of the sequence was struck; what came after it is nobody's. */
  readonly detach: boolean
}

/** As xterm spells a key with a modifier, as kitty does (with other codes of the key, and what became of it), or plainly. */
const KEY_SEQUENCE = new RegExp(
  [
    '\\x1b\\[27;(?<mods1>\\d+);(?<code1>\\d+)~',
    '\\x1b\\[(?<code2>\\d+)[:\\d]*(?:;(?<mods2>\\d*)(?::(?<kind>\\d+))?)?(?:;[:\\d]*)?u',
    '.',
  ].join('|'),
  'gsu',
)
/** What the protocols say of Ctrl; of the locks, which are no part of a key. */
const CTRL = 4
const LOCKS = 64 | 128
const RELEASED = '3'

interface HeldKey {
  readonly key: DetachKey | undefined
  text: string
}

export class DetachKeyWatcher {
  readonly #keys: readonly DetachKey[]
  /** The beginning of the sequence, as far as it has come. */
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

  /** Answers what is not held back, or not any more. */
  #processKey(match: RegExpMatchArray): string {
    const last = this.#held.at(-1)
    if (last !== undefined && isRelease(match)) {
      // That a key is let go of says nothing of the next one; it stays with its key.
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
  const isLetter = sign > 0x40 && sign <= 0x5a
  return { ctrl: true, code: isLetter ? sign + 0x20 : sign }
}

const isSame = (key: DetachKey | undefined, wanted: DetachKey | undefined): boolean =>
  key !== undefined && key.ctrl === wanted?.ctrl && key.code === wanted.code
