/**
 * Writes `launch.json`, by which other programs of the same user find this host and its token.
 * The file is owner-only, is written when the listeners are open, and is removed on a clean stop.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isTakenOver } from '../core/owner.ts'
import type { ControlDatabase } from '../core/ports.ts'
import { replaceFile } from '../store/files/atomic.ts'

export interface Launch {
  readonly pid: number
  readonly version: string
  readonly startedAt: string
  readonly url: string
  readonly fleetUrl?: string
  readonly inspectorUrl?: string
  /** The name of the socket that only the host's user can reach. */
  readonly socket?: string
  readonly token: string
}

const pathIn = (dataDir: string): string => join(dataDir, 'launch.json')

/** After another process has taken the data directory over, the file is that of the other one. */
const isOwn = (database: Pick<ControlDatabase, 'state'>): boolean => !isTakenOver(database.state())

export async function writeLaunch(
  dataDir: string,
  launch: Launch,
  database: Pick<ControlDatabase, 'state'>,
): Promise<void> {
  await replaceFile(pathIn(dataDir), `${JSON.stringify(launch, undefined, 2)}\n`, () => isOwn(database))
}

export async function removeLaunch(dataDir: string, database: Pick<ControlDatabase, 'state'>): Promise<void> {
  if (isOwn(database)) await rm(pathIn(dataDir), { force: true })
}
