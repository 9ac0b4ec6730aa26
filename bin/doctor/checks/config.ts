/** Tells whether the configuration file can be read, validates, and maps a repository. */

import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { settingSentence } from '../../../client/settings.ts'
import { nearestExisting } from '../../nearest-folder.ts'
import { type Check, fail, ok, warn } from '../finding.ts'

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
