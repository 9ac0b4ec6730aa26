/** A data directory that can't be opened, as the end of the process: each cause has an exit code of its own. */
import { DataDirInUse, messageOf, NotADataDir, StoreTooNew } from '../store/errors.ts'
import { Ending, EXIT } from './exit.ts'

export function storeEnding(error: unknown, dataDir: string): Ending {
  if (error instanceof DataDirInUse) return new Ending(EXIT.taken, error.message)
  if (error instanceof NotADataDir) return new Ending(EXIT.usage, error.message)
  if (error instanceof StoreTooNew) return new Ending(EXIT.dataTooNew, error.message)
  return new Ending(EXIT.broken, `the data directory ${dataDir} can't be used: ${messageOf(error)}`)
}
