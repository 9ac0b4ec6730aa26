/** Parses the values of command-line options; a wrong value is refused with what the option takes. */
import { isAbsolute } from 'node:path'
import { InvalidArgumentError } from '@commander-js/extra-typings'
import { parseFingerprint } from '../../core/fleet/token.ts'
import type { TakeOver } from '../../core/owner.ts'
import { splitWords } from '../../core/split-words.ts'
import { originsOfHostEntry } from '../../protocol/git-address.ts'
import { PROSE_CHARS_MAX } from '../../protocol/limits.ts'
import { usageError } from './exit.ts'

/** The longest word list of a start or stop command. */
const SUPERVISOR_COMMAND_WORDS_MAX = 256

export function parseWholeNumber(text: string, least: number, most: number): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
}

/** A parser for `Command.option`. */
export const wholeNumber =
  (least: number, most: number) =>
  (text: string): number =>
    parseWholeNumber(text, least, most)

export function parsePositive(text: string, most: number): number {
  const value = /^\d{1,9}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN
  if (value > 0 && value <= most) return value
  throw new InvalidArgumentError(`It must be a number above 0, up to ${most}.`)
}

/** An empty path is most likely a variable of a script that is not set. */
export function parsePath(text: string): string {
  if (text !== '') return text
  throw new InvalidArgumentError('It must be a path, and is empty.')
}

export function parseFolder(text: string): string {
  if (isAbsolute(text)) return text
  throw new InvalidArgumentError('It must be an absolute path.')
}

export function parseTakeOver(text: string): TakeOver {
  if (text === 'by-hand' || text === 'exclusive-volume') return text
  throw new InvalidArgumentError('It must be exclusive-volume, or nothing.')
}

export function parsePrivateHost(text: string): string {
  if (originsOfHostEntry(text).length > 0) return text
  throw new InvalidArgumentError(
    'It must be a host name or an address, with a port or none, like git.corp.example:8443.',
  )
}

export function parseFingerprintOption(text: string): string {
  if (parseFingerprint(text).ok) return text
  throw new InvalidArgumentError(
    'It must be a SHA-256 fingerprint: 64 hexadecimal digits, with colons or without.',
  )
}

/** Reads a command line without a shell: words with quotes, or a list in JSON. */
export function parseCommandWords(text: string): readonly string[] {
  const words = splitWords(text)
  if (!words.ok)
    throw new InvalidArgumentError(`It must be a program with its arguments: ${words.refusal.message}.`)
  if (words.value.length <= SUPERVISOR_COMMAND_WORDS_MAX) return words.value
  throw new InvalidArgumentError(`It must have at most ${SUPERVISOR_COMMAND_WORDS_MAX} words.`)
}

/** Options whose text may be long: `-` reads it from standard input. */
export async function readTextOption(text: string, option: string): Promise<string> {
  if (text !== '-') return text
  if (process.stdin.isTTY === true)
    throw usageError(`${option} - reads standard input, and that is a terminal`)
  let read = ''
  process.stdin.setEncoding('utf8')
  for await (const part of process.stdin) {
    read += String(part)
    if (read.length > PROSE_CHARS_MAX)
      throw usageError(`${option}: standard input is longer than ${PROSE_CHARS_MAX} characters`)
  }
  return read.trimEnd()
}
