/** The real clock and real dice, for tests that work with real files and real processes. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from '@jest/globals'
import type { Chance, Clock } from '../../core/ports.ts'

export const realClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
  endOfTick: (run) => void setImmediate(run),
}

export const realChance: Chance = {
  bytes: (count) => randomBytes(count),
  fraction: () => Math.random(),
}

const folders: string[] = []

/** A new empty folder, gone when the test file is done. */
export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-test-'))
  folders.push(folder)
  return folder
}

afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** Asks again every few milliseconds until it is so; fails naming what was waited for. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  ms = 10_000,
): Promise<void> {
  const end = Date.now() + ms
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain for: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
