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
      const at = setAsideAt(join(dataDir, name, LOST_FILE))
      if (at === undefined) return []
      const message = `a damaged database was set aside ${at}; ${name}/${LOST_FILE} names what is lost unless a backup has it`
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

function setAsideAt(path: string): string | undefined {
  try {
    return String(Object(JSON.parse(readFileSync(path, 'utf8'))).at)
  } catch (error) {
    // A folder that a person has moved there by hand has no such file.
    return codeOf(error) === 'ENOENT' ? undefined : 'at an unknown time'
  }
}
