/**
 * Reads the output streams of sandbox processes.
 */

const OUTPUT_TAIL_BYTES = 64 * 1024

export async function readChunks(
  stream: AsyncIterable<Buffer>,
  onChunk: (chunk: Buffer) => void | Promise<void>,
): Promise<void> {
  try {
    for await (const chunk of stream) await onChunk(chunk)
  } catch {
    // A broken pipe counts as the end of the stream.
  }
}

/** Keeps the last part of the output. */
export class OutputTail {
  #chunks: Buffer[] = []
  #bytes = 0

  add(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.byteLength
    while (this.#bytes - (this.#chunks[0]?.byteLength ?? 0) > OUTPUT_TAIL_BYTES) {
      this.#bytes -= this.#chunks.shift()?.byteLength ?? 0
    }
  }

  text(): string {
    return Buffer.concat(this.#chunks).subarray(-OUTPUT_TAIL_BYTES).toString('utf8')
  }
}
