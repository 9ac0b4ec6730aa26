/** These functions write a stream into a temporary file for a program that needs files, and remove it afterwards. */
import { type FileHandle, mkdir, mkdtemp, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../core/result.ts'

export interface TempFile {
  readonly path: string
  /** An empty folder as the working directory for a program that reads settings from there. */
  readonly emptyFolder: string
}

export interface TempFileSource {
  readonly size: number
  read(): AsyncIterable<Uint8Array>
}

const PREFIX = 'switchyard-bucket-'

/** Removes folders that a killed process left behind. Call this before the first use of `parent`, as its only user. */
export async function removeLeftovers(parent: string): Promise<void> {
  const names = await readdir(parent).catch(() => [])
  await Promise.all(names.filter((name) => name.startsWith(PREFIX)).map((name) => remove(join(parent, name))))
}

/** Makes a folder for the duration of `work` and removes it with its contents. */
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

/** Writes the source into a file. Refuses unless its length is exactly `size` bytes. */
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
    if (bytes !== size) return no('invalid', 'the file does not have the announced length')
    return yes({ path, emptyFolder })
  } catch (error) {
    const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
    return no('failed', `the file could not be read or copied for the upload (${code || 'no code'})`)
  } finally {
    await file?.close()
  }
}
