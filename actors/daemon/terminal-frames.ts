/** Splits terminal output into the data of frames, encoded once for all views. */
import { ATTACH_DATA_CHARS_MAX } from '../../protocol/limits.ts'

/** The data of one frame, as a JSON string. */
export type EncodedChunk = string

/** Chunks of at most `ATTACH_DATA_CHARS_MAX`, without splitting a surrogate pair. */
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
