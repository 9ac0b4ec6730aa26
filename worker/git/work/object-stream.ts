/** Reads the output of `git cat-file --batch`, whose objects may have any size, piece by piece. */

export interface GitObject {
  readonly id: string
  readonly type: string
  readonly bytes: number
  /** The text behind the id in the input, such as a path. */
  readonly note: string
}

export interface ObjectReader {
  begin(object: GitObject): void
  /** Returns a promise only when the stream has to wait. */
  push(piece: Buffer): Promise<void> | undefined
  end(): Promise<void> | undefined
}

/** The format that `readObjects` expects. */
export const OBJECT_FORMAT = '--batch=%(objectname) %(objecttype) %(objectsize) %(rest)'

const NEWLINE = 0x0a
const HEADER_BYTES_MAX = 64 * 1024
const HEADER = /^([0-9a-f]{40,64}) (commit|tree|blob|tag) ([0-9]+) ?(.*)$/s

/** Rejects when the output is not as expected, or ends early. */
export async function readObjects(output: AsyncIterable<Buffer>, reader: ObjectReader): Promise<void> {
  const stream = new ObjectStream(reader)
  for await (const piece of output) {
    for (let at = 0; at < piece.length; ) {
      const step = stream.accept(piece, at)
      if (step.waiting !== undefined) await step.waiting
      at = step.next
    }
  }
  if (!stream.isBetweenObjects()) throw new Error('the last object is incomplete')
}

interface StreamStep {
  /** The index at which the rest of the piece begins. */
  readonly next: number
  readonly waiting?: Promise<void> | undefined
}

class ObjectStream {
  readonly #reader: ObjectReader
  #header: Buffer = Buffer.alloc(0)
  /** Undefined between two objects. */
  #bytesLeft: number | undefined

  constructor(reader: ObjectReader) {
    this.#reader = reader
  }

  isBetweenObjects(): boolean {
    return this.#bytesLeft === undefined && this.#header.length === 0
  }

  accept(piece: Buffer, at: number): StreamStep {
    if (this.#bytesLeft === undefined) return this.#acceptHeader(piece, at)
    return this.#bytesLeft > 0 ? this.#acceptContent(piece, at, this.#bytesLeft) : this.#acceptEnd(at)
  }

  #acceptHeader(piece: Buffer, at: number): StreamStep {
    const end = piece.indexOf(NEWLINE, at)
    this.#header = Buffer.concat([this.#header, piece.subarray(at, end < 0 ? piece.length : end)])
    if (this.#header.length > HEADER_BYTES_MAX) throw new Error('an object has no header')
    if (end < 0) return { next: piece.length }
    const [match, id = '', type = '', bytes, note = ''] = HEADER.exec(this.#header.toString()) ?? []
    if (match === undefined) throw new Error('an object is missing')
    this.#header = Buffer.alloc(0)
    this.#bytesLeft = Number(bytes)
    this.#reader.begin({ id, type, bytes: this.#bytesLeft, note })
    return { next: end + 1 }
  }

  #acceptContent(piece: Buffer, at: number, bytesLeft: number): StreamStep {
    const content = piece.subarray(at, at + bytesLeft)
    this.#bytesLeft = bytesLeft - content.length
    return { next: at + content.length, waiting: this.#reader.push(content) }
  }

  /** A newline follows the content. */
  #acceptEnd(at: number): StreamStep {
    this.#bytesLeft = undefined
    return { next: at + 1, waiting: this.#reader.end() }
  }
}
