/** Splits text for a terminal, typed or printed, into the data of frames. Nothing is lost, and the order is kept. */
import { ATTACH_DATA_CHARS_MAX } from '../protocol/limits.ts'

/** Pieces of at most `ATTACH_DATA_CHARS_MAX`, without splitting a surrogate pair. */
export function splitTerminalData(data: string): string[] {
  if (data.length <= ATTACH_DATA_CHARS_MAX) return data === '' ? [] : [data]
  const pieces: string[] = []
  for (let from = 0; from < data.length; ) {
    const until = splitBefore(data, from + ATTACH_DATA_CHARS_MAX)
    pieces.push(data.slice(from, until))
    from = until
  }
  return pieces
}

function splitBefore(data: string, at: number): number {
  if (at >= data.length) return data.length
  const isInside = (data.charCodeAt(at) & 0xfc00) === 0xdc00 && (data.charCodeAt(at - 1) & 0xfc00) === 0xd800
  return isInside ? at - 1 : at
}
