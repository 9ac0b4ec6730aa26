/** Writes a tar archive in memory, in the ustar format that every tar reads: same bytes from the same files. */

const BLOCK_BYTES = 512
const NAME_BYTES_MAX = 100
/** The date that npm gives to the files of every package. */
const WRITTEN_AT_SECONDS = 499_162_500

/** @param files in their order, each `{ name, content, mode }`; folders come before what they hold and have no content */
export function createTar(files) {
  const parts = files.flatMap(({ name, content, mode }) => {
    const bytes = content?.length ?? 0
    return [
      headerOf({ name, bytes, mode, isFolder: content === undefined }),
      content ?? Buffer.alloc(0),
      padding(bytes),
    ]
  })
  // Two empty blocks end an archive.
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK_BYTES)])
}

const padding = (bytes) => Buffer.alloc((BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES)

function headerOf({ name, bytes, mode, isFolder }) {
  if (Buffer.byteLength(name) > NAME_BYTES_MAX) throw new Error(`${name} is too long for a tar archive`)
  const header = Buffer.alloc(BLOCK_BYTES)
  header.write(name, 0)
  for (const [value, at, length] of [
    [mode, 100, 8],
    [0, 108, 8], // the owner: root
    [0, 116, 8], // and its group
    [bytes, 124, 12],
    [WRITTEN_AT_SECONDS, 136, 12],
  ])
    header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at)
  // The checksum counts its own field as spaces.
  header.write('        ', 148)
  header.write(isFolder ? '5' : '0', 156)
  header.write('ustar\x0000', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}
