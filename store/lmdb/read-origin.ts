/** Reads to which installation a database belongs, without creating or changing one. */
import type { FoundDatabase } from '../../core/installation.ts'
import { findUnopened, openForReading } from './open-environment.ts'
import { checkFormat, findInstallation } from './origin.ts'

/** Rejects with StoreTooNew or StoreUnreadable. */
export async function readOrigin(folder: string): Promise<FoundDatabase> {
  const unopened = findUnopened(folder)
  if (unopened !== undefined) return unopened
  const root = openForReading(folder)
  try {
    return findInstallation(root, checkFormat(folder, root))
  } finally {
    await root.close()
  }
}
