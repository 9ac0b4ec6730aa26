/** Splits terminal output into the data of frames, encoded once for all views. */
import { splitTerminalData } from '../../core/terminal-data.ts'

/** The data of one frame, as a JSON string. */
export type EncodedChunk = string

export function encodeChunks(data: string): EncodedChunk[] {
  return splitTerminalData(data).map((piece) => JSON.stringify(piece))
}
