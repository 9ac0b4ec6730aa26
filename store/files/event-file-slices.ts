/**
 * Reads slices of a run's event file. Lost events have a line in their place, and are named to the caller.
 *
 * A part with a checksum is read whole or named whole: no text is shown that may differ from what was written. Parts
 * that earlier versions wrote have no checksum; there only the lines and their indexes tell that events are lost. The
 * file is opened for each slice, so that a slow reader holds no descriptor.
 */

import { codeOf } from '../../protocol/message-of.ts'
import { DAMAGED, type EventFileRecord, MISSING } from '../lmdb/event-buffer.ts'
import { type FileSum, isIntact, type SumsFrom, selectSums } from '../lmdb/file-sums.ts'
import { findOffsetAfter, openForReading, parseEvent, readLineSlice } from './event-file.ts'

/** How far a reader has read. */
export interface Reading {
  readonly runId: string
  readonly path: string
  /** The index of the next event. */
  next: number
  /** The offset in the file from which to read; undefined while it is unknown. */
  offset?: number
  /** The file was repaired for this reader. */
  isRepaired?: boolean
}

export interface FileLine {
  readonly index: number
  readonly text: string
}

/** Returns the line in the place of events that are lost. */
export type NameLost = (from: number, to: number, why: string) => FileLine

export interface FileSlice {
  readonly lines: readonly FileLine[]
  readonly next: number
  readonly offset: number | undefined
  /** The file is shorter than its record says. */
  readonly isFileShort: boolean
}

/** Reads the parts that have checksums; where the next ones have none, up to the first that has, or to the end. */
export async function readFileSlice(
  reading: Reading,
  { sums, before }: SumsFrom,
  record: EventFileRecord,
  nameLost: NameLost,
): Promise<FileSlice> {
  const end = before === undefined ? record : { bytes: before.offset, next: before.first }
  try {
    return sums.length > 0
      ? await readParts(reading, sums, nameLost)
      : await readUnsummed(reading, end, nameLost)
  } catch (error) {
    if (!isUnreadable(error)) throw error
    // Other parts of the file may lie on blocks that can be read.
    const next = sums.at(-1)?.next ?? end.next
    const lines = [nameLost(reading.next, next - 1, describeUnreadable(error))]
    return { lines, next, offset: undefined, isFileShort: false }
  }
}

/** Reads parts that lie one behind the other and have checksums. */
async function readParts(
  { path, next }: Reading,
  sums: readonly FileSum[],
  nameLost: NameLost,
): Promise<FileSlice> {
  const [start, end] = [sums[0]?.offset ?? 0, endOfPart(sums.at(-1))]
  const bytes = await readBytes(path, start, end)
  const lines = sums.flatMap((sum): FileLine[] => {
    const part = bytes.subarray(sum.offset - start, endOfPart(sum) - start)
    if (part.length < sum.bytes) return []
    if (!isIntact(sum, part)) return [nameLost(Math.max(sum.first, next), sum.next - 1, DAMAGED)]
    const texts = part.toString('utf8', 0, part.length - 1).split('\n')
    return texts.map((text, i) => ({ index: sum.first + i, text })).filter(({ index }) => index >= next)
  })
  const isFileShort = bytes.length < end - start
  // A file that could not be repaired.
  if (isFileShort)
    lines.push(nameLost((lines.at(-1)?.index ?? next - 1) + 1, (sums.at(-1)?.next ?? 1) - 1, MISSING))
  return { lines, next: sums.at(-1)?.next ?? next, offset: undefined, isFileShort }
}

const endOfPart = (sum: FileSum | undefined): number => (sum === undefined ? 0 : sum.offset + sum.bytes)

async function readBytes(path: string, start: number, end: number): Promise<Buffer> {
  const file = await openForReading(path)
  if (file === undefined) return Buffer.alloc(0)
  try {
    const bytes = Buffer.allocUnsafe(end - start)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start)
    return bytes.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

/** Reads a part without checksums, up to the end of `record`. */
async function readUnsummed(
  { path, next, offset }: Reading,
  record: EventFileRecord,
  nameLost: NameLost,
): Promise<FileSlice> {
  const file = await openForReading(path)
  if (file === undefined)
    return {
      lines: [nameLost(next, record.next - 1, MISSING)],
      next: record.next,
      offset: 0,
      isFileShort: true,
    }
  try {
    const { size } = await file.stat()
    const bytes = Math.min(size, record.bytes)
    const isKnown = offset !== undefined && offset <= bytes
    const start = isKnown ? offset : next === 0 ? 0 : await findOffsetAfter(file, next - 1, bytes)
    const slice = await readLineSlice(file, start, bytes)
    const isEnd = slice.end >= bytes
    const lines = eventLines(slice.lines, next, isEnd ? record.next : undefined, nameLost)
    const after = isEnd ? record.next : (lines.at(-1)?.index ?? next - 1) + 1
    return { lines, next: after, offset: slice.end, isFileShort: size < record.bytes }
  } finally {
    await file.close()
  }
}

/**
 * Returns the lines that are events from index `next` on, and a line for each hole.
 *
 * @param end the index behind the last line; undefined when more lines follow
 */
function eventLines(
  texts: readonly string[],
  next: number,
  end: number | undefined,
  nameLost: NameLost,
): FileLine[] {
  const lines: FileLine[] = []
  let expected = next
  const skipTo = (index: number) => {
    if (index > expected) lines.push(nameLost(expected, index - 1, DAMAGED))
    expected = Math.max(expected, index)
  }
  for (const text of texts) {
    const index = parseEvent(text)?.index
    if (index === undefined || index < expected) continue
    skipTo(index)
    lines.push({ index, text })
    expected = index + 1
  }
  if (end !== undefined) skipTo(end)
  return lines
}

// ---- what is lost --------------------------------------------------------------------------------------------------

const SLICE_BYTES = 1024 * 1024

interface UnreadableEvents {
  readonly from: number
  readonly to: number
  readonly why: string
}

/**
 * Finds the events that readers of a run's event file would find damaged or missing.
 *
 * @param sums the checksums of its parts, in any order
 */
export async function findLostEvents(
  file: { readonly runId: string; readonly path: string },
  record: EventFileRecord,
  sums: readonly FileSum[],
): Promise<readonly UnreadableEvents[]> {
  const lost: UnreadableEvents[] = []
  const ordered = [...sums].sort((a, b) => a.first - b.first)
  const reading: Reading = { ...file, next: 0 }
  let at = 0
  while (reading.next < record.next) {
    while ((ordered[at + 1]?.first ?? Number.POSITIVE_INFINITY) <= reading.next) at++
    const parts = selectSums(ordered.slice(at), reading.next, SLICE_BYTES)
    const found = await readFileSlice(reading, parts, record, (from, to, why) => {
      const last = lost.at(-1)
      if (last !== undefined && last.to + 1 === from && last.why === why) lost.splice(-1, 1, { ...last, to })
      else lost.push({ from, to, why })
      return { index: to, text: '' }
    })
    reading.next = found.next
    if (found.offset === undefined) delete reading.offset
    else reading.offset = found.offset
  }
  return lost
}

/** A bad block, something else in the place of the file, or a file of another user. */
const LASTING = new Set<unknown>(['EIO', 'EISDIR', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM'])

/** Tells failures of a read that last, and so are damage of the file, from those of the process or of the moment. */
export const isUnreadable = (error: unknown): boolean => LASTING.has(codeOf(error))

export const describeUnreadable = (error: unknown): string => `unreadable (${codeOf(error)})`
