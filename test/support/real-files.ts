/** Temporary folders, and waiting for conditions, for tests with real files and processes. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from '@jest/globals'

const folders: string[] = []

/** Creates an empty folder that is deleted after the test file. */
export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-test-'))
  folders.push(folder)
  return folder
}

afterAll(async () => {
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
  await until(`${folder} to be gone`, isGone, WAIT_MS_MAX, 50).catch((error) => {
    throw new Error(`${error.message}: ${lastError}`)
  })
}

/** Generous, because only a failing test waits this long and a busy machine is ten times slower. */
const WAIT_MS_MAX = 45_000

/** Pauses for a multiple of the time that the check took, because an expensive check slows down the tested processes. */
const PAUSE_PER_CHECK = 8
const PAUSE_MS_MAX = 50

/** Checks the condition every few milliseconds until it holds; fails with `what` after `ms`. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  ms = WAIT_MS_MAX,
  everyMs = 5,
): Promise<void> {
  const end = Date.now() + ms
  for (;;) {
    const asked = performance.now()
    if (await isSo()) return
    if (Date.now() > end) throw new Error(`waited ${ms} ms for: ${what}`)
    const rest = Math.min(PAUSE_PER_CHECK * (performance.now() - asked), PAUSE_MS_MAX)
    await new Promise((resolve) => setTimeout(resolve, Math.max(everyMs, rest)))
  }
}
