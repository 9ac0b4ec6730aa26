/** Tells whether the disk has room for a run, where the data and where the sandboxes lie. */
import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DOCTOR_FREE_BYTES_MIN } from '../../../protocol/limits.ts'
import { FREE_BYTES_TO_START_MIN } from '../../../worker/executor.ts'
import { describeShortage, freeSpace } from '../../../worker/run/free-disk.ts'
import { FALLBACK_FOLDER, findRootFolder } from '../../../worker/run/sandbox-location.ts'
import { nearestExisting } from '../../nearest-folder.ts'
import { formatBytes } from '../../output/amounts.ts'
import type { ExaminedMachine } from '../examined-machine.ts'
import { type Check, fail, type Judgement, ok, warn } from '../finding.ts'

export const diskCheck: Check = {
  id: 'disk',
  places: ['host', 'worker'],
  async judge(machine) {
    const { SWITCHYARD_SANDBOX_DIR = '' } = machine.environment
    const sandboxes = SWITCHYARD_SANDBOX_DIR === '' ? await findSandboxes(machine) : SWITCHYARD_SANDBOX_DIR
    // A data directory is made by the first start.
    const folders = [machine.dataDir, sandboxes].map(nearestExisting)
    const cure = await findCure(machine)
    // Two folders of one disk are one disk.
    const byDisk = new Map(
      await Promise.all(folders.map(async (folder) => [(await stat(folder)).dev, folder] as const)),
    )
    return await Promise.all([...byDisk.values()].map((folder) => judge(folder, cure)))
  },
}

/** A worker of root keeps them elsewhere where their users could not reach the data directory, as in that of a host. */
async function findSandboxes({ place, dataDir }: ExaminedMachine): Promise<string> {
  if (process.geteuid?.() !== 0) return dataDir
  if (place === 'host') return FALLBACK_FOLDER
  return existsSync(dirname(dataDir)) ? await findRootFolder(dataDir) : dataDir
}

async function judge(folder: string, cure: (folder: string) => string): Promise<Judgement> {
  const space = await freeSpace(folder)
  const free = `${formatBytes(space.bytes)} free in ${folder}`
  const shortage = describeShortage(space, FREE_BYTES_TO_START_MIN)
  if (shortage !== undefined) return fail(`${free}: ${shortage}`, cure(folder))
  return space.bytes < DOCTOR_FREE_BYTES_MIN ? warn(free, cure(folder)) : ok(free)
}

const RETENTION_HOURS_CURED = 8

/** Retained sandboxes are what the service itself can give back, and a full disk takes no setting. */
async function findCure({ place, config }: ExaminedMachine): Promise<(folder: string) => string> {
  const read = place === 'host' ? await config() : undefined
  const isLong = read?.ok === true && read.value.sandbox.retentionHours > RETENTION_HOURS_CURED
  const keptShorter = isLong
    ? `, then: switchyard config set sandbox.retentionHours ${RETENTION_HOURS_CURED}`
    : ''
  return (folder) => `delete what is not needed on the disk of ${folder}${keptShorter}`
}
