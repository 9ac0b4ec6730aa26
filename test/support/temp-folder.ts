/** Creates temporary folders for tests with real files, and removes them after the test file. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from '@jest/globals'
import { UNTIL_MS_MAX, until } from './until.ts'

const folders: string[] = []
const endings: (() => Promise<void>)[] = []

/** Registers the end of what uses the folders of the test file until then. */
export function beforeFoldersGo(end: () => Promise<void>): void {
  endings.push(end)
}

/** Creates an empty folder that is deleted after the test file; in memory where the machine has room. */
export function tempFolder(): string {
  return createFolderIn(tmpdir())
}

/** Creates a folder on the disk, for tests of the store with a real file system and real syncs. */
export function diskFolder(): string {
  return createFolderIn('/var/tmp')
}

function createFolderIn(parent: string): string {
  const folder = mkdtempSync(join(parent, 'switchyard-test-'))
  folders.push(folder)
  return folder
}

afterAll(async () => {
  for (const end of endings.splice(0)) await end()
  for (const folder of folders.splice(0)) await removeTestFolder(folder)
})

/** Retries the removal, because a process killed a moment ago may still write into the folder. */
export async function removeTestFolder(folder: string): Promise<void> {
  let lastError: unknown
  const isGone = () => {
    try {
      rmSync(folder, { recursive: true, force: true })
      return true
    } catch (error) {
      lastError = error
      return false
    }
  }
  await until(`${folder} to be gone`, isGone, UNTIL_MS_MAX, 50).catch((error) => {
    throw new Error(`${error.message}: ${lastError}`)
  })
}
