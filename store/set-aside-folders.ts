/** Finds the folders of damaged databases in a data directory, which `check-data --set-aside` has left there. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Damage } from '../core/damage.ts'
import { SET_ASIDE } from '../core/lost-database-messages.ts'
import { codeOf } from './errors.ts'

/** The file in such a folder that names what was lost. */
export const LOST_FILE = 'lost.json'

/** Returns what the folders of damaged databases in the directory say. */
export function findSetAside(dataDir: string): Damage[] {
  return readdirSync(dataDir)
    .filter((name) => name.startsWith('state.') && name.endsWith(SET_ASIDE))
    .flatMap((name) => {
      const lost = readLost(join(dataDir, name, LOST_FILE))
      if (lost === undefined) return []
      const message = `${lost.count} damaged records were set aside ${lost.at}, and are lost unless a backup has them; ${name}/${LOST_FILE} names them`
      return [
        {
          id: `set aside ${name}`,
          where: name,
          message,
          cure: `read that file, then remove the folder ${name}`,
        },
      ]
    })
}

function readLost(path: string): { readonly at: string; readonly count: number } | undefined {
  try {
    const { at, lost } = Object(JSON.parse(readFileSync(path, 'utf8')))
    return { at: String(at), count: Array.isArray(lost) ? lost.length : 0 }
  } catch (error) {
    // A folder that a person has moved there by hand has no such file.
    return codeOf(error) === 'ENOENT' ? undefined : { at: 'at an unknown time', count: 0 }
  }
}
