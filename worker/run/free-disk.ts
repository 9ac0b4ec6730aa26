/**
 * How much room there is for runs.
 *
 * A disk that takes no more files is full, however many bytes it has left, and an agent can bring that about with empty
 * ones. Some file systems don't count their files; they say that they have none.
 */
import { statfs } from 'node:fs/promises'

const FREE_FILES_MIN = 10_000

export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize, files, ffree } = await statfs(folder)
  return files > 0 && ffree < FREE_FILES_MIN ? 0 : bavail * bsize
}
