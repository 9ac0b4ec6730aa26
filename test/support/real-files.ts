/** Real folders, and waiting for what is so: for tests that work with real files and real processes. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from '@jest/globals'

const folders: string[] = []

/** A new empty folder, gone when the test file is done. */
export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-test-'))
  folders.push(folder)
  return folder
}

afterAll(async () => {
  for (const folder of folders.splice(0)) await removeTestFolder(folder)
})

/** From its top again and again: what was killed a moment ago may still be putting something down. */
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

/** Generous, as only what is broken waits it out: a busy machine may take ten times as long as a quiet one. */
const WAIT_MS_MAX = 45_000

/** What is dear to ask is asked less often: asking takes time from those who are to bring it about. */
const PAUSE_PER_CHECK = 8
const PAUSE_MS_MAX = 50

/** Asks again every few milliseconds, or less often what is dear to ask, until it is so; fails naming what was waited for. */
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
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain for: ${what}`)
    const rest = Math.min(PAUSE_PER_CHECK * (performance.now() - asked), PAUSE_MS_MAX)
    await new Promise((resolve) => setTimeout(resolve, Math.max(everyMs, rest)))
  }
}
