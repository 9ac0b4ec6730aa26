/** Maps the errors of opening a data directory to exit codes. */
import { DataDirInUse, messageOf, NotADataDir, StoreTooNew } from '../store/errors.ts'
import { EXIT, ExitError } from './exit.ts'

export function storeExitError(error: unknown, dataDir: string): ExitError {
  if (error instanceof DataDirInUse) return new ExitError(EXIT.inUse, error.message)
  if (error instanceof NotADataDir) return new ExitError(EXIT.usage, error.message)
  if (error instanceof StoreTooNew) return new ExitError(EXIT.dataTooNew, error.message)
  return new ExitError(EXIT.broken, `the data directory ${dataDir} cannot be used: ${messageOf(error)}`)
}
