/**
 * Replacing a file so that a crash at any instant leaves the old text or the new, never a mixture, never neither.
 *
 * The draft lies in the same folder under a name nobody else uses, owner-only from its first byte, is synced, takes
 * the place of the old file by one rename, and the folder is synced so that the rename itself survives. A crash can
 * leave a draft behind; `sweepDrafts` removes those.
 */
import { constants } from 'node:fs'
import { lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../failures.ts'

const DRAFT = /^\.(.+)\.([0-9a-z]+)\.draft$/
let drafts = 0

/** Whoever owned the old file, the new one is 0600. */
export async function replaceFile(path: string, text: string | Uint8Array): Promise<void> {
  const draft = draftOf(path)
  try {
    await writeSynced(draft, text)
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
  await syncFolder(dirname(path))
}

/** Makes a file that must not be there yet, durable when it resolves. */
export async function createFile(path: string, text: string | Uint8Array): Promise<void> {
  try {
    await writeSynced(path, text)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') await rm(path, { force: true })
    throw error
  }
  await syncFolder(dirname(path))
}

/** Removes what earlier lives of this process left half done in that folder. */
export async function sweepDrafts(folder: string): Promise<void> {
  for (const name of await namesIn(folder)) {
    if (DRAFT.test(name)) await rm(join(folder, name), { force: true })
  }
}

/** Makes the folders on the way to `folder`, each 0700, each synced into its parent. */
export async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made))
}

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** A folder that is not there has no names. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return []
    throw error
  }
}

/** Whether a folder of its own is there: a link to a folder elsewhere is not one. */
export async function isOwnFolder(folder: string): Promise<boolean> {
  try {
    return (await lstat(folder)).isDirectory()
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false
    throw error
  }
}

function draftOf(path: string): string {
  return join(dirname(path), `.${basename(path)}.${process.pid.toString(36)}${(drafts++).toString(36)}.draft`)
}

async function writeSynced(path: string, text: string | Uint8Array): Promise<void> {
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}
