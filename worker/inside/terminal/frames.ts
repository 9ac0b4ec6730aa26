/**
 * Encodes and decodes the frames between a terminal in a sandbox and the worker: a letter for the kind, four bytes for
 * the length, then the content.
 *
 * `TerminalFrameReader` joins partial frames. Both sides limit the frame size; the worker's side must not trust the
 * frames, because any program in the sandbox may have written them.
 */

/** `input` and `resize` go into the sandbox, `output` and `exit` come out. */
export type PtyFrameKind = 'input' | 'resize' | 'output' | 'exit'

export interface PtyFrame {
  readonly kind: PtyFrameKind
  readonly bytes: Buffer
}

export const FRAME_BYTES_MAX = 256 * 1024
const HEAD_BYTES = 5
const KIND_LETTERS: Readonly<Record<PtyFrameKind, string>> = {
  input: 'i',
  resize: 'r',
  output: 'o',
  exit: 'x',
}
const KIND_BY_LETTER = new Map(
  Object.entries(KIND_LETTERS).map(([kind, letter]) => [letter.charCodeAt(0), kind as PtyFrameKind]),
)

/** `length` is at most FRAME_BYTES_MAX; split longer content into several frames. */
export function encodeFrameHead(kind: PtyFrameKind, length: number): Buffer {
  const head = Buffer.allocUnsafe(HEAD_BYTES)
  head.write(KIND_LETTERS[kind], 0, 'latin1')
  head.writeUInt32BE(length, 1)
  return head
}

export function encodeFrame(kind: PtyFrameKind, bytes: Uint8Array): Buffer {
  return Buffer.concat([encodeFrameHead(kind, bytes.length), bytes])
}

export class PtyFrameReader {
  #partial: Buffer = Buffer.alloc(0)

  /** Returns 'broken' for an invalid frame; nothing after it can be decoded either. */
  push(chunk: Buffer): readonly PtyFrame[] | 'broken' {
    const bytes = this.#partial.length === 0 ? chunk : Buffer.concat([this.#partial, chunk])
    const frames: PtyFrame[] = []
    let at = 0
    while (bytes.length - at >= HEAD_BYTES) {
      const kind = KIND_BY_LETTER.get(bytes[at] ?? 0)
      const end = at + HEAD_BYTES + bytes.readUInt32BE(at + 1)
      if (kind === undefined || end - at > HEAD_BYTES + FRAME_BYTES_MAX) return 'broken'
      if (end > bytes.length) break
      frames.push({ kind, bytes: bytes.subarray(at + HEAD_BYTES, end) })
      at = end
    }
    this.#partial = bytes.subarray(at)
    return frames
  }
}

// ---- contents ------------------------------------------------------------------------------------------------------

export interface PtySize {
  readonly cols: number
  readonly rows: number
}

export function encodeResize({ cols, rows }: PtySize): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt16BE(clampToUint16(cols), 0)
  bytes.writeUInt16BE(clampToUint16(rows), 2)
  return encodeFrame('resize', bytes)
}

/** Returns undefined for an invalid terminal size. */
export function decodeSize(bytes: Buffer): PtySize | undefined {
  if (bytes.length !== 4) return undefined
  const [cols, rows] = [bytes.readUInt16BE(0), bytes.readUInt16BE(2)]
  return cols === 0 || rows === 0 ? undefined : { cols, rows }
}

export function encodeExit(code: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeInt32BE(code, 0)
  return encodeFrame('exit', bytes)
}

export function decodeExitCode(bytes: Buffer): number | undefined {
  return bytes.length === 4 ? bytes.readInt32BE(0) : undefined
}

/** Terminal sizes are 16-bit numbers. */
function clampToUint16(count: number): number {
  return Math.min(65_535, Math.max(1, Math.trunc(count) || 1))
}
