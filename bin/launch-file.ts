/**
 * Writes `launch.json`, by which other programs of the same user find this host and its token.
 * The file is owner-only, is written when the listeners are open, and is removed on a clean stop.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../store/files/atomic.ts'

export interface Launch {
  readonly pid: number
  readonly version: string
  readonly startedAt: string
  readonly url: string
  readonly fleetUrl?: string
  readonly inspectorUrl?: string
  readonly token: string
}

const pathIn = (dataDir: string): string => join(dataDir, 'launch.json')

export async function writeLaunch(dataDir: string, launch: Launch): Promise<void> {
  await replaceFile(pathIn(dataDir), `${JSON.stringify(launch, undefined, 2)}\n`)
}

export async function removeLaunch(dataDir: string): Promise<void> {
  await rm(pathIn(dataDir), { force: true })
}
