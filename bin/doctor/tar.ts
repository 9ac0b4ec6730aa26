/** Writes a tar archive of small text files in memory, in the ustar format that every tar reads. */

export interface ArchivedFile {
  /** Up to 100 ASCII characters. */
  readonly name: string
  readonly text: string
}

const BLOCK_BYTES = 512

export function createTar(files: readonly ArchivedFile[], writtenAt: number): Buffer {
  const seconds = Math.floor(writtenAt / 1000)
  const parts = files.flatMap(({ name, text }) => {
    const content = Buffer.from(text)
    return [headerOf(name, content.length, seconds), content, paddingAfter(content.length)]
  })
  // Two empty blocks end an archive.
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK_BYTES)])
}

const paddingAfter = (bytes: number): Buffer =>
  Buffer.alloc((BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES)

function headerOf(name: string, bytes: number, seconds: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES)
  header.write(name, 0, 100, 'ascii')
  writeOctal(header, 0o600, 100, 8)
  writeOctal(header, 0, 108, 8)
  writeOctal(header, 0, 116, 8)
  writeOctal(header, bytes, 124, 12)
  writeOctal(header, seconds, 136, 12)
  // The checksum counts its own field as spaces.
  header.write('        ', 148, 8, 'ascii')
  header.write('0', 156, 1, 'ascii')
  header.write('ustar\x0000', 257, 8, 'ascii')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 8, 'ascii')
  return header
}

function writeOctal(header: Buffer, value: number, at: number, length: number): void {
  header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, length, 'ascii')
}
