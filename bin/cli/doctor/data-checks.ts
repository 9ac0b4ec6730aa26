/**
 * Tells whether the data directory can be used: its owner and modes, what a killed host left, and its database.
 *
 * The configuration file has a check of its own. The database is read only while no process uses the directory, and
 * without its library.
 */
import { existsSync, statSync } from 'node:fs'
import { access, chmod, constants, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { settingSentence } from '../../../client/settings.ts'
import { codeOf, messageOf } from '../../../protocol/message-of.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import { checkDataDir } from '../../../store/check-data-dir.ts'
import { DataDirInUse } from '../../../store/errors.ts'
import { inspectDatabase } from '../../../store/inspect-database.ts'
import { findOwner } from '../../../store/lock.ts'
import { realClock, realRandom } from '../../process/clock.ts'
import {
  findWriteRefusal,
  nearestExisting,
  OTHER_FOLDER,
  storeExitError,
  TAKE_OVER_WORKER,
} from '../../process/store-exit-code.ts'
import { type Check, fail, type Judgement, ok, splitCure, warn } from './examine.ts'
import type { ExaminedMachine } from './examined-machine.ts'

const FIX = 'switchyard doctor --fix'
/** A part of the time of a check; a larger database is read in part. */
const DAMAGE_MS_MAX = 5_000
const DAMAGE_LINES_MAX = 50
/** Files with secrets; those of the database lie in a folder of their own. */
const SECRET_FILES = ['config.json', 'launch.json', 'credential.json']
const OWNER_ONLY = 0o077
const USABLE = constants.R_OK | constants.W_OK | constants.X_OK
/** Folders of the data directory that its process writes to. */
const FOLDERS = ['state', 'runs', 'usage', 'audit']

export const dataCheck: Check = {
  id: 'data',
  places: ['host', 'worker'],
  async judge(machine) {
    const { dataDir } = machine
    const stats = await stat(dataDir).catch((error: unknown) => judgeAbsence(dataDir, error))
    if ('status' in stats) return [stats]
    if (!stats.isDirectory()) return [fail(`${dataDir} is no folder`, OTHER_FOLDER)]
    const access = await judgeAccess(dataDir, stats.uid)
    if (access.length > 0) return access
    const problems = [
      ...(await judgeModes(dataDir)),
      ...(await judgeLaunch(machine)),
      ...(await judgeDatabase(machine)),
    ]
    return problems.length === 0 ? [ok(`${dataDir} is whole and private`)] : problems
  },
}

function judgeAbsence(dataDir: string, error: unknown): Judgement {
  if (codeOf(error) === 'ENOTDIR') return fail(`${dataDir} cannot be made: ${messageOf(error)}`, OTHER_FOLDER)
  if (codeOf(error) !== 'ENOENT')
    return fail(`${dataDir} cannot be read: ${messageOf(error)}`, `namei -l ${quoteWord(dataDir)}`)
  const refusal = findWriteRefusal(nearestExisting(dataDir))
  return refusal === undefined
    ? ok(`${dataDir} does not exist; the first start makes it`)
    : fail(`${dataDir} cannot be made: ${messageOf(refusal)}`, OTHER_FOLDER)
}

async function judgeAccess(dataDir: string, owner: number): Promise<readonly Judgement[]> {
  const own = process.geteuid?.() ?? owner
  if (owner !== own)
    return [
      fail(`${dataDir} belongs to user ${owner}, and this is user ${own}`, 'start as the user who owns it'),
    ]
  try {
    await access(dataDir, USABLE)
  } catch (error) {
    // The mode of a folder changes nothing where the file system is read-only.
    const cure = codeOf(error) === 'EROFS' ? OTHER_FOLDER : `chmod 700 ${quoteWord(dataDir)}`
    return [fail(`${dataDir} cannot be used: ${messageOf(error)}`, cure)]
  }
  const within = await Promise.all(FOLDERS.map((name) => judgeFolder(dataDir, join(dataDir, name))))
  return within.flat()
}

async function judgeFolder(dataDir: string, folder: string): Promise<readonly Judgement[]> {
  try {
    await access(folder, USABLE)
  } catch (error) {
    const { message, cure } = storeExitError(error, dataDir)
    if (codeOf(error) !== 'ENOENT') return [fail(message, cure)]
  }
  return []
}

// ---- modes ---------------------------------------------------------------------------------------------------------

async function judgeModes(dataDir: string): Promise<readonly Judgement[]> {
  const state = join(dataDir, 'state')
  const inState = (await readdir(state).catch(() => [])).map((name) => join(state, name))
  const judged = await Promise.all([
    judgeMode(dataDir, 0o700),
    judgeMode(state, 0o700),
    ...[...SECRET_FILES.map((name) => join(dataDir, name)), ...inState].map((path) => judgeMode(path, 0o600)),
  ])
  return judged.flat()
}

async function judgeMode(path: string, wanted: number): Promise<readonly Judgement[]> {
  const stats = await stat(path).catch(() => undefined)
  if (stats === undefined || (stats.mode & OWNER_ONLY) === 0) return []
  const message = `other users may read ${path}: its mode is ${formatMode(stats.mode & 0o777)}`
  return [
    warn(message, FIX, {
      result: `${path} has mode ${formatMode(wanted)}`,
      apply: () => chmod(path, wanted),
    }),
  ]
}

const formatMode = (mode: number): string => mode.toString(8).padStart(4, '0')

// ---- the rest ------------------------------------------------------------------------------------------------------

async function judgeLaunch({ host, place }: ExaminedMachine): Promise<readonly Judgement[]> {
  const found = place === 'host' ? await host() : undefined
  const stale = found?.is === 'none' ? found.staleLaunch : undefined
  if (stale === undefined) return []
  return [
    warn('launch.json names a host that has ended', FIX, {
      result: 'launch.json of an ended host is removed',
      apply: () => rm(stale, { force: true }),
    }),
  ]
}

async function judgeDatabase({ dataDir, place }: ExaminedMachine): Promise<readonly Judgement[]> {
  const owner = findOwner(dataDir)
  // For a host the check of the host says so.
  if (owner?.isAlive === false && place === 'worker')
    return [judgeUnknownOwner(dataDir, owner.description, TAKE_OVER_WORKER)]
  if (owner !== undefined) return []
  try {
    const damaged = await judgeDamage(dataDir)
    if (damaged.length > 0) return damaged
    const restoring = await inspectDatabase(dataDir, place === 'worker' ? 'worker' : 'host', realRandom)
    return restoring === undefined
      ? []
      : [warn('the database of this worker is missing or empty; it starts with a new one', restoring)]
  } catch (error) {
    const { message, cure } = storeExitError(error, dataDir)
    return [cure === undefined ? fail(...splitCure(message, /\. (?=[A-Z])|; /)) : fail(message, cure)]
  }
}

async function judgeDamage(dataDir: string): Promise<readonly Judgement[]> {
  if (!existsSync(join(dataDir, 'state', 'data.mdb'))) return []
  const until = realClock.monotonic() + DAMAGE_MS_MAX
  const mayGoOn = () => realClock.monotonic() < until
  const { damage } = await checkDataDir(dataDir, { random: realRandom, mayGoOn })
  // Other checks judge these two, with cures of their own.
  const own = damage.filter(({ id }) => id !== 'installation' && id !== 'file config.json')
  const more = own.length - DAMAGE_LINES_MAX
  return [
    ...own.slice(0, DAMAGE_LINES_MAX).map(({ message }) => fail(message, 'switchyard check-data')),
    ...(more > 0 ? [fail(`${more} more records are damaged`, 'switchyard check-data')] : []),
  ]
}

/** The owner may live on another machine, or in another container. */
export function judgeUnknownOwner(dataDir: string, description: string, cure: string): Judgement {
  const { message } = new DataDirInUse(dataDir, description, { isAlive: false, takesOver: false })
  return fail(message, cure)
}

// ---- the configuration ---------------------------------------------------------------------------------------------

/** Tells whether the configuration file can be read, validates, and maps a repository. */
export const configCheck: Check = {
  id: 'config',
  places: ['host'],
  async judge({ config, dataDir }) {
    const path = join(dataDir, 'config.json')
    // A file in the place of the data directory is a finding of another check.
    if (!statSync(nearestExisting(dataDir)).isDirectory()) return []
    const read = await config()
    if (!read.ok) return [fail(`${path} ${settingSentence(read.refusal.message)}`, 'switchyard config edit')]
    if (!existsSync(path)) return [ok(`${path} does not exist, so every default applies`)]
    if (Object.keys(read.value.repos).length > 0) return [ok(`${path} is valid`)]
    return [
      warn(
        'no repository is configured, so no ticket can become a run',
        'switchyard config set repos.KEY.remote OWNER/NAME',
      ),
    ]
  },
}
