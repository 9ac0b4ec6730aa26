/**
 * What a terminal shows, as frames: encoded once, however many views it is for.
 */
import { ATTACH_DATA_CHARS_MAX } from '../../protocol/limits.ts'

/** The data of one frame, as JSON. */
export type EncodedChunk = string

/** None is longer than a frame's data, and no character is cut in two. */
export function encodeChunks(data: string): EncodedChunk[] {
  const pieces: EncodedChunk[] = []
  for (let from = 0; from < data.length; ) {
    const until = splitBefore(data, from + ATTACH_DATA_CHARS_MAX)
    pieces.push(JSON.stringify(data.slice(from, until)))
    from = until
  }
  return pieces
}

function splitBefore(data: string, at: number): number {
  if (at >= data.length) return data.length
  const isInside = (data.charCodeAt(at) & 0xfc00) === 0xdc00 && (data.charCodeAt(at - 1) & 0xfc00) === 0xd800
  return isInside ? at - 1 : at
}
