/**
 * `importBundle` copies a git bundle out of a folder with untrusted content.
 *
 * The bundle must be a regular file without further hard links, of limited size, with exactly one ref (`OUT_REF`).
 * Links are not followed, and pipes do not block. The checked content is copied, so that a later change has no effect.
 * The pack is not checked here: `git index-pack` checks each object.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { no, type Result, yes } from '../../core/result.ts'

export interface ImportedBundle {
  readonly head: string
  /** The path of the pack without the header, in the worker's own folder. */
  readonly pack: string
}

/** The only ref that a bundle may contain. */
export const OUT_REF = 'refs/switchyard/out'

const HEADER_BYTES_MAX = 256 * 1024
const PIECE_BYTES = 256 * 1024
const MISSING_CODES = new Set<unknown>(['ENOENT'])

/** undefined: no bundle exists, so nothing was changed. */
export async function importBundle(
  from: string,
  pack: string,
  bytesMax: number,
): Promise<Result<ImportedBundle | undefined>> {
  let source: FileHandle
  try {
    source = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    const code = codeOf(error)
    return MISSING_CODES.has(code)
      ? yes(undefined)
      : no('invalid', `what came out of the sandbox is no bundle (${code})`)
  }
  try {
    return await importOpened(source, pack, bytesMax)
  } finally {
    await source.close()
  }
}

async function importOpened(
  source: FileHandle,
  pack: string,
  bytesMax: number,
): Promise<Result<ImportedBundle>> {
  const stats = await source.stat()
  if (!stats.isFile() || stats.nlink !== 1) {
    return no(
      'invalid',
      'what came out of the sandbox is no plain file; the agent’s work stays in its sandbox',
    )
  }
  if (stats.size > bytesMax) return tooLarge(bytesMax)
  const header = await readHeader(source)
  if (!header.ok) return header
  const { head, length } = header.value
  if (!(await copyPack(source, length, pack, bytesMax))) return tooLarge(bytesMax)
  return yes({ head, pack })
}

interface BundleHeader {
  readonly head: string
  readonly length: number
}

async function readHeader(source: FileHandle): Promise<Result<BundleHeader>> {
  const { buffer, bytesRead } = await source.read(Buffer.alloc(HEADER_BYTES_MAX), 0, HEADER_BYTES_MAX, 0)
  const text = buffer.toString('latin1', 0, bytesRead)
  const end = text.indexOf('\n\n')
  if (end < 0) return notOurBundle('it has no end of a header')
  const [signature, ...lines] = text.slice(0, end).split('\n')
  if (signature !== '# v2 git bundle') return notOurBundle('it is of another version')
  const refs = lines.filter((line) => !line.startsWith('-'))
  const [, head, name] = /^([0-9a-f]{40}) (\S+)$/.exec(refs[0] ?? '') ?? []
  if (refs.length !== 1 || head === undefined || name !== OUT_REF) {
    return notOurBundle(`it must hold ${OUT_REF} and nothing else`)
  }
  return yes({ head, length: end + 2 })
}

async function copyPack(source: FileHandle, from: number, to: string, bytesMax: number): Promise<boolean> {
  await rm(to, { recursive: true, force: true })
  const target = await open(to, 'wx', 0o600)
  try {
    const piece = Buffer.allocUnsafe(PIECE_BYTES)
    for (let at = from; at <= bytesMax; ) {
      const { bytesRead } = await source.read(piece, 0, PIECE_BYTES, at)
      if (bytesRead === 0) return true
      await target.writeFile(piece.subarray(0, bytesRead))
      at += bytesRead
    }
    return false
  } finally {
    await target.close()
  }
}

function notOurBundle(why: string) {
  return no('invalid', `what came out of the sandbox is no bundle of ours: ${why}`)
}

function tooLarge(bytesMax: number) {
  return no(
    'invalid',
    `the agent’s work has more than ${Math.floor(bytesMax / 1024 / 1024)} MiB; see what large files it added`,
  )
}

function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
}
