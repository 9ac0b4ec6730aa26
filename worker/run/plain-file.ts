/** Reads files that a sandbox has left: no link is followed, and no pipe blocks. */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

export type OpenedFile = { readonly handle: FileHandle; readonly size: number } | string

/** `O_NONBLOCK`: opening a pipe without a writer would block forever. */
export async function openPlainFile(path: string): Promise<OpenedFile> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(path, flags).catch(() => undefined)
  if (handle === undefined) return 'it cannot be opened'
  const stats = await handle.stat()
  const problem = !stats.isFile()
    ? 'it is not a plain file'
    : stats.nlink !== 1
      ? 'it has several names'
      : undefined
  if (problem === undefined) return { handle, size: stats.size }
  await handle.close()
  return problem
}

export async function fillBuffer(
  handle: FileHandle,
  buffer: Buffer,
  from: number,
  size: number,
): Promise<number> {
  const wanted = Math.min(buffer.byteLength, size - from)
  let bytesFilled = 0
  while (bytesFilled < wanted) {
    const { bytesRead } = await handle.read(buffer, bytesFilled, wanted - bytesFilled, from + bytesFilled)
    if (bytesRead === 0) break
    bytesFilled += bytesRead
  }
  return bytesFilled
}
