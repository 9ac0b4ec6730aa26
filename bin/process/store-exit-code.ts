/** Errors of a data directory, as the exit code and the sentence of a program that can't use it or loses it. */
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { isDamagedRecord } from '../../core/damage.ts'
import type { RescueCopy, StoreState } from '../../core/ports/store.ts'
import { codeOf, messageOf } from '../../protocol/message-of.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { DataDirInUse, isNotPermitted, NotADataDir, StoreTooNew } from '../../store/errors.ts'
import { EXIT, ExitError, isExitError, usageError } from './exit.ts'

/** Error codes after which only another folder helps: a file in its place, a read-only disk, no right to write. */
const UNUSABLE = new Set<unknown>(['EACCES', 'EEXIST', 'ENOTDIR', 'EPERM', 'EROFS'])
export const OTHER_FOLDER = 'name a folder that can be written with --data-dir'
const takeOverBy = (command: string): string =>
  `when it is known to have ended for good: ${command} --take-over`
export const TAKE_OVER_HOST = takeOverBy('switchyard serve')
export const TAKE_OVER_WORKER = takeOverBy('switchyard worker')

/** A file in the place of the folder, or a disk that is read-only, ends the command with a sentence. */
export async function inDataDir<T>(dataDir: string, work: () => Promise<T>, takeOver?: string): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isExitError(error) ? error : storeExitError(error, dataDir, takeOver)
  }
}

/** @param takeOver the cure where nobody can see whether the owner of the directory still lives */
export function storeExitError(error: unknown, dataDir: string, takeOver = TAKE_OVER_HOST): ExitError {
  if (error instanceof DataDirInUse)
    return new ExitError(EXIT.inUse, error.message, error.isAlive ? undefined : takeOver)
  if (error instanceof NotADataDir) return usageError(error.message)
  if (error instanceof StoreTooNew) return new ExitError(EXIT.dataTooNew, error.message)
  const cause = causeOf(error, dataDir)
  return new ExitError(
    EXIT.broken,
    `the data directory ${dataDir} cannot be used: ${messageOf(cause)}`,
    cureOfUnusable(cause, dataDir),
  )
}

function cureOfUnusable(cause: unknown, dataDir: string): string | undefined {
  const user = process.geteuid?.()
  // Data is not left behind because some of its files belong to somebody else, such as to root.
  if (isNotPermitted(cause) && user !== undefined && !isOfOther(dataDir) && isOfOther(pathOf(cause)))
    return `give its files back to the user who owns it: sudo chown -R ${user} ${quoteWord(dataDir)}`
  return UNUSABLE.has(codeOf(cause)) ? OTHER_FOLDER : undefined
}

function pathOf(error: unknown): string {
  const hasPath = typeof error === 'object' && error !== null && 'path' in error
  return hasPath && typeof error.path === 'string' ? error.path : ''
}

/** A path below a folder that this user may not enter counts too. */
function isOfOther(path: string): boolean {
  try {
    const stats = statSync(path, { throwIfNoEntry: false })
    return stats !== undefined && stats.uid !== process.geteuid?.()
  } catch {
    return true
  }
}

/** Every failure of a start has a sentence; `--log-level debug` shows where a bug happened. */
export function startExitError(error: unknown, dataDir: string): ExitError {
  if (isExitError(error)) return error
  const message = messageOf(error)
  // Its message names the cure already.
  if (isDamagedRecord(error)) return new ExitError(EXIT.broken, message)
  return new ExitError(EXIT.broken, `the host cannot start in ${dataDir}: ${message}`, cureOf(error))
}

function cureOf(error: unknown): string {
  const code = codeOf(error)
  if (code === 'ERR_FS_EISDIR' || code === 'EISDIR')
    return 'move that folder away, which is in the place of a file, and start again'
  return UNUSABLE.has(code) ? OTHER_FOLDER : 'switchyard doctor, which names what is broken'
}

/** Node says that a folder is missing when the one above it is read-only. */
function causeOf(error: unknown, dataDir: string): unknown {
  return codeOf(error) === 'ENOENT' ? (findWriteRefusal(nearestExisting(dataDir)) ?? error) : error
}

/** Returns the path itself, or the nearest folder above it that exists. */
export function nearestExisting(path: string): string {
  return path === dirname(path) || existsSync(path) ? path : nearestExisting(dirname(path))
}

/** Returns the error of the system; undefined for a folder that this user may write. */
export function findWriteRefusal(folder: string): unknown {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    return undefined
  } catch (error) {
    return error
  }
}

// ---- the copy that saves a lost database ---------------------------------------------------------------------------

/** Further time for a copy that saves a lost database: at least, and by its size. */
export const RESCUE_MS_MIN = 30_000
export const RESCUE_BYTES_PER_SECOND_MIN = 1024 * 1024

const NOT_IN_TIME = 'its content could not be saved in time'

interface RescueReport {
  /** The time that the copy may take; 0 without a copy. */
  readonly msMax: number
  /** Adds the outcome of the copy to the reason of the stop. */
  describe(reason: string): string
}

/**
 * Says what a stopping process reports about the copy that saves a lost database, and how long it waits for the copy.
 */
export function watchRescue(state: StoreState): RescueReport {
  const rescue = state.is === 'broken' ? state.rescue : undefined
  if (rescue === undefined) return { msMax: 0, describe: (reason) => reason }
  let outcome = NOT_IN_TIME
  void rescue.ended.then((ended) => {
    outcome = ended
  })
  return { msMax: rescueMsMax(rescue), describe: (reason) => `${reason}; ${outcome}` }
}

/** A copy without a limit would keep the process forever when its disk hangs. */
const rescueMsMax = ({ bytes }: RescueCopy): number =>
  RESCUE_MS_MIN + Math.ceil((1_000 * bytes) / RESCUE_BYTES_PER_SECOND_MIN)
