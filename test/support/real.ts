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

afterAll(() => {
  // What was killed a moment ago may still be putting something down.
  const patiently = { recursive: true, force: true, maxRetries: 10 }
  for (const folder of folders.splice(0)) rmSync(folder, patiently)
})

/** Generous, as only what is broken waits it out: a busy machine may take ten times as long as a quiet one. */
const PATIENCE_MS = 25_000

/** Asks again every few milliseconds, or less often what is dear to ask, until it is so; fails naming what was waited for. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  ms = PATIENCE_MS,
  everyMs = 5,
): Promise<void> {
  const end = Date.now() + ms
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain for: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}
