/** The checks of this machine: Node, git, the sandbox, the disk, what deleted workers left, and the clock. */
import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { explainOldGit, isGitTooOld } from '../../../core/git-version.ts'
import { formatBytes } from '../../../protocol/format-bytes.ts'
import { describeListener } from '../../../transport/choose-listener.ts'
import { FREE_BYTES_TO_START_MIN } from '../../../worker/executor.ts'
import { describeShortage, freeSpace } from '../../../worker/run/disk/disk-space.ts'
import {
  FALLBACK_FOLDER,
  findAbandonedLocations,
  findRootFolder,
} from '../../../worker/run/disk/sandbox-location.ts'
import type { SandboxWalls } from '../../../worker/sandbox/driver.ts'
import { formatAge } from '../../output/times.ts'
import { realClock, realRandom } from '../../process/clock.ts'
import { nearestExisting } from '../../process/store-exit-code.ts'
import { deleteAbandonedLocations } from '../../programs/worker/sweep-sandbox-folders.ts'
import { type Check, fail, type Judgement, ok, splitCure, warn } from './examine.ts'
import type { ExaminedMachine } from './examined-machine.ts'

/** Node's published end-of-life dates, by major version. */
const END_OF_FIXES: Readonly<Record<string, string>> = {
  20: '2026-04-30',
  22: '2027-04-30',
  24: '2028-04-30',
}

/** Tells which Node runs this program, whether it still receives fixes, and what serves the host's ports with it. */
export const nodeCheck: Check = {
  id: 'node',
  places: ['host', 'worker'],
  async judge({ place, nodeVersion, listener, now }) {
    const choice = place === 'host' ? listener() : undefined
    const altered = choice?.alteredFile
    if (altered !== undefined)
      return [fail(`${altered} is not the released binary of the listener`, 'reinstall switchyard')]
    const serves = choice === undefined ? '' : `, listener ${describeListener(choice)}`
    const ended = END_OF_FIXES[nodeVersion.split('.')[0] ?? '']
    if (ended !== undefined && now() > Date.parse(ended))
      return [
        warn(
          `node ${nodeVersion} has had no fixes since ${ended}${serves}`,
          'install Node 24: https://nodejs.org/en/download',
        ),
      ]
    return [ok(`node ${nodeVersion}${serves}`)]
  },
}

/** Tells whether this machine's git is there, and new enough for what the configuration asks of it. */
export const gitCheck: Check = {
  id: 'git',
  places: ['host', 'worker'],
  async judge({ git, config }) {
    const found = await git()
    if (!found.ok) return [fail(...splitCure(found.refusal.message))]
    const version = found.value
    if (version === undefined) return [warn('git does not say which version it is', 'git version')]
    const read = await config()
    const mergesHere = read.ok && read.value.codehost.driver === 'local'
    const old = [
      ...(mergesHere && isGitTooOld(version, 'merges')
        ? [explainOldGit('merging in the local code host', version, 'merges')]
        : []),
      ...(isGitTooOld(version, 'pinnedHosts')
        ? [
            explainOldGit(
              'connecting to exactly the checked address of an https host',
              version,
              'pinnedHosts',
            ),
          ]
        : []),
    ]
    return old.length === 0 ? [ok(`git ${version}`)] : old.map((text) => warn(...splitCure(text)))
  },
}

// ---- the sandbox ---------------------------------------------------------------------------------------------------

const PROVISION = 'run a worker on another machine: switchyard workers provision USER@HOST'

/** Tells whether runs can be sandboxed here: the program of the sandbox, and the namespaces that it needs. */
export const sandboxCheck: Check = {
  id: 'sandbox',
  places: ['host', 'worker'],
  async judge(machine) {
    const found = await machine.sandbox()
    if (found.ok) return [ok(`${found.provider} isolates runs on this machine: ${describeWalls(found)}`)]
    // The finding of the namespaces says it.
    if (found.fault?.of === 'user-namespaces') return []
    const [message, advice] = splitCure(found.detail)
    const { problem = message, cure = advice ?? PROVISION } = found.fault ?? {}
    if (found.reason === 'unsupported-platform') return [warn(problem, PROVISION)]
    return [await judgeHere(machine, problem, cure)]
  },
}

export const userNamespacesCheck: Check = {
  id: 'userns',
  places: ['host', 'worker'],
  async judge(machine) {
    const found = await machine.sandbox()
    if (found.ok) return [ok('user namespaces work')]
    const { fault } = found
    return fault?.of === 'user-namespaces' ? [await judgeHere(machine, fault.problem, fault.cure)] : []
  },
}

function describeWalls({ walls, missingWalls }: SandboxWalls): string {
  const missing = missingWalls.map((wall) => `no ${wall}`)
  return [...walls, ...missing].join(', ')
}

/** A host that runs no worker of its own needs no sandbox. */
async function judgeHere(machine: ExaminedMachine, problem: string, cure: string): Promise<Judgement> {
  const config = await machine.config()
  const isNeeded = machine.place === 'worker' || !config.ok || config.value.worker.local
  return isNeeded ? fail(problem, cure) : warn(problem, cure)
}

// ---- the disk ------------------------------------------------------------------------------------------------------

/** A disk with less free space gets a warning before it is full. */
const DOCTOR_FREE_BYTES_MIN = 4 * 1024 * 1024 * 1024

/** Tells whether the disk has room for a run, where the data and where the sandboxes lie. */
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

// ---- leftovers -----------------------------------------------------------------------------------------------------

/** Finds sandbox folders that a root worker left outside of a data directory that was deleted since. */
export const leftoversCheck: Check = {
  id: 'leftovers',
  places: ['host', 'worker'],
  async judge({ environment, now }) {
    if (process.geteuid?.() !== 0) return []
    const { SWITCHYARD_SANDBOX_DIR = '' } = environment
    const parent = SWITCHYARD_SANDBOX_DIR === '' ? FALLBACK_FOLDER : SWITCHYARD_SANDBOX_DIR
    const found = await findAbandonedLocations(parent, now())
    if (found.length === 0) return [ok(`no sandboxes of deleted data directories in ${parent}`)]
    const folders = found.map(({ folder }) => folder)
    const what =
      folders.length === 1 ? dirname(join(folders[0] ?? '', 'x')) : `${folders.length} folders in ${parent}`
    return [
      warn(`sandboxes of deleted data directories remain: ${what}`, 'switchyard doctor --fix', {
        result: `sandboxes of deleted data directories are gone: ${what}`,
        apply: () => deleteAbandonedLocations(found, { clock: realClock, random: realRandom }),
      }),
    ]
  },
}

// ---- the clock -----------------------------------------------------------------------------------------------------

/** A clock that is off by more confuses logs and schedules; by still more, certificates and tokens. */
const DOCTOR_CLOCK_WARN_MS = 30_000
const DOCTOR_CLOCK_FAIL_MS = 5 * 60_000
const CURE = 'sudo timedatectl set-ntp true'

/** Compares this machine's clock with the tracker and the code host, and asks no other service for the time. */
export const clockCheck: Check = {
  id: 'clock',
  places: ['host'],
  async judge({ trackerAccount, codehostAccount, clocks }) {
    await Promise.all([trackerAccount(), codehostAccount()])
    const [farthest] = [...clocks].sort((a, b) => Math.abs(b.aheadMs) - Math.abs(a.aheadMs))
    if (farthest === undefined) return [ok('not compared: no service that tells the time was asked')]
    const { service, aheadMs } = farthest
    const off = Math.abs(aheadMs)
    if (off < DOCTOR_CLOCK_WARN_MS) return [ok(`agrees with ${service}`)]
    const message = `this clock is ${formatAge(off)} ${aheadMs > 0 ? 'ahead of' : 'behind'} ${service}`
    return [off < DOCTOR_CLOCK_FAIL_MS ? warn(message, CURE) : fail(message, CURE)]
  },
}
