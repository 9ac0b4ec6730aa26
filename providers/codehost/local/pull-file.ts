/**
 * Encodes and decodes the file of one local pull request.
 *
 * Decoding checks the whole file, and refuses with the file name and the field. Encoding refuses a record that decoding
 * would refuse.
 */
import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { no, type Result, yes } from '../../../core/result.ts'
import { codeOf } from '../../../protocol/message-of.ts'
import { createChecker, parseJson } from '../../../protocol/parse.ts'
import { KeptPull } from '../../../protocol/pulls.ts'

const PULL_FILE_BYTES_MAX = 4 * 1024 * 1024

/** A record without instants gets those of its file. */
export type DatedPull = KeptPull & { readonly createdAt: string; readonly updatedAt: string }

export interface PullFileContent {
  readonly bytes: Buffer
  readonly stats: BigIntStats
}

/** A conversation consists of many small objects; the file size is the real limit. */
const JSON_KEYS_MAX = 200_000
const INSTANT_MAX = Date.UTC(9999, 11, 31)
const check = createChecker(KeptPull)

/** Refuses a record that could not be read back. */
export function encodePull(pull: KeptPull, number: number): Result<Buffer> {
  const checked = check(pull)
  if (!checked.ok) return no('invalid', `pull request ${number}: ${checked.error}`)
  const bytes = Buffer.from(`${JSON.stringify(pull, null, 2)}\n`)
  if (bytes.length <= PULL_FILE_BYTES_MAX) return yes(bytes)
  return no(
    'conflict',
    `pull request ${number} is full: its file would have more than ${PULL_FILE_BYTES_MAX} bytes`,
  )
}

export function decodePull({ bytes, stats }: PullFileContent, number: number): Result<DatedPull> {
  const name = `${number}.json`
  const parsed = parseJson(bytes.toString('utf8'), JSON_KEYS_MAX)
  const pull = parsed.ok ? check(parsed.value) : parsed
  if (!pull.ok) return no('invalid', `${name}: ${pull.error}`)
  if (pull.value.number === number) return yes(withInstants(pull.value, stats))
  return no('invalid', `${name}: /number: must be ${number}, as in the file's name`)
}

function withInstants(pull: KeptPull, { mtimeMs }: BigIntStats): DatedPull {
  const written = new Date(Math.min(Math.max(Number(mtimeMs), 0), INSTANT_MAX)).toISOString()
  const { createdAt = earlier(written, pull.updatedAt), updatedAt = later(written, createdAt) } = pull
  return { ...pull, createdAt, updatedAt }
}

const earlier = (a: string, b = a): string => (a < b ? a : b)
const later = (a: string, b: string): string => (a > b ? a : b)

export async function readPlainFile(path: string, name: string): Promise<Result<PullFileContent>> {
  let handle: FileHandle | undefined
  try {
    // Do not wait for the writer of a pipe, and do not follow a link.
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const stats = await handle.stat({ bigint: true })
    if (!stats.isFile()) return no('invalid', `${name} is not a regular file; remove it`)
    if (stats.size > PULL_FILE_BYTES_MAX) {
      return no('invalid', `${name} has more than ${PULL_FILE_BYTES_MAX} bytes; shorten it`)
    }
    return yes({ bytes: await handle.readFile(), stats })
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return no('unknown', `there is no ${name}`)
    if (code === 'ELOOP') return no('invalid', `${name} is a link; put the file itself there`)
    return no('invalid', `${name} cannot be read (${code})`)
  } finally {
    await handle?.close()
  }
}
