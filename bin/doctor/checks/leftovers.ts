/** Finds sandbox folders that a root worker left outside of a data directory that was deleted since. */
import { dirname, join } from 'node:path'
import { findAbandonedLocations } from '../../../worker/run/abandoned-locations.ts'
import { FALLBACK_FOLDER } from '../../../worker/run/sandbox-location.ts'
import { realClock, realRandom } from '../../clock.ts'
import { deleteAbandonedLocations } from '../../sweep-sandbox-folders.ts'
import { type Check, ok, warn } from '../finding.ts'

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
