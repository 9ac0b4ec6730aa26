/**
 * Replacing a file so that a crash at any instant leaves the old text or the new, never a mixture, never neither.
 *
 * The draft lies in the same folder under a name nobody else uses, owner-only from its first byte, is synced, takes
 * the place of the old file by one rename, and the folder is synced so that the rename itself survives. A crash can
 * leave a draft behind; `sweepDrafts` removes those, and never one that is being written.
 */
import { constants, renameSync } from 'node:fs'
import { lstat, mkdir, open, readdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../errors.ts'

const DRAFT = /^\.(.+)\.([0-9a-z]+)\.draft$/
/** Somebody's folder of that name: never one of our drafts. */
const IS_FOLDER = new Set<unknown>(['EISDIR', 'ERR_FS_EISDIR'])
let drafts = 0
/** Those being written right now, which no sweep may take. */
const draftsInProgress = new Set<string>()

/**
 * Whoever owned the old file, the new one is 0600. `still` is asked last, with everything but the rename done, so
 * that hardly any time is left in which its answer can become wrong. Answers whether the file was replaced.
 */
export async function replaceFile(
  path: string,
  text: string | Uint8Array,
  still?: () => boolean,
): Promise<boolean> {
  const draft = draftOf(path)
  draftsInProgress.add(draft)
  try {
    await writeSynced(draft, text)
    if (still !== undefined && !still()) {
      await rm(draft, { force: true })
      return false
    }
    // In one breath with the question: nothing of ours can come in between.
    renameSync(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  } finally {
    draftsInProgress.delete(draft)
  }
  await syncFolder(dirname(path))
  return true
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

/** It stays away, whatever happens now; nothing happens when there is none. */
export async function removeFileDurably(path: string): Promise<void> {
  await rm(path, { force: true })
  await syncFolder(dirname(path))
}

/** Removes what earlier lives of this process left half done in that folder; with `own`, only drafts of that file. */
export async function sweepDrafts(folder: string, own?: string): Promise<void> {
  for (const name of await namesIn(folder)) {
    const of = DRAFT.exec(name)?.[1]
    if (of === undefined || (own !== undefined && of !== own)) continue
    if (!draftsInProgress.has(join(folder, name))) await removeFile(join(folder, name))
  }
}

async function removeFile(path: string): Promise<void> {
  try {
    await rm(path, { force: true })
  } catch (error) {
    if (!IS_FOLDER.has(codeOf(error))) throw error
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
