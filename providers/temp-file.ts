/** A stream put into a file of this process alone, for a program that takes files; gone when the work is done. */
import { type FileHandle, mkdir, mkdtemp, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../core/result.ts'

export interface TempFile {
  readonly path: string
  /** Beside it, for a program that looks around where it stands. */
  readonly emptyFolder: string
}

export interface TempFileSource {
  readonly size: number
  read(): AsyncIterable<Uint8Array>
}

const PREFIX = 'switchyard-bucket-'

/** Removes what a process that was killed could not; for whoever is alone with `parent`, before anything is put there. */
export async function removeLeftovers(parent: string): Promise<void> {
  const names = await readdir(parent).catch(() => [])
  await Promise.all(names.filter((name) => name.startsWith(PREFIX)).map((name) => remove(join(parent, name))))
}

/** The folder is made for `work`, and removed with all that is in it. */
export async function withTempFolder<T>(parent: string, work: (folder: string) => Promise<T>): Promise<T> {
  await mkdir(parent, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(parent, PREFIX))
  try {
    return await work(folder)
  } finally {
    await remove(folder)
  }
}

async function remove(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
}

/** Exactly as many bytes as were announced, or none. */
export async function writeTempFile(
  folder: string,
  { size, read }: TempFileSource,
): Promise<Result<TempFile>> {
  const path = join(folder, 'object')
  const emptyFolder = join(folder, 'empty')
  let file: FileHandle | undefined
  try {
    await mkdir(emptyFolder, { mode: 0o700 })
    file = await open(path, 'wx', 0o600)
    let bytes = 0
    for await (const chunk of read()) {
      bytes += chunk.byteLength
      if (bytes > size) break
      await file.writeFile(chunk)
    }
    if (bytes !== size) return no('invalid', 'the file is not as long as it was said to be')
    return yes({ path, emptyFolder })
  } catch (error) {
    const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
    return no('failed', `the file could not be read or kept for the upload (${code || 'no code'})`)
  } finally {
    await file?.close()
  }
}
