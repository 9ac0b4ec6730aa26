/** Tests of the words about a database that must not be used: each names its cures in a safe order. */
import { expect, test } from '@jest/globals'
import {
  emptiedMessage,
  foreignMessage,
  howToRestore,
  outdatedMessage,
  truncatedMessage,
} from '../../core/installation.ts'

const places = { dataDir: '/data', state: '/data/state', record: '/data/installation.json' }
const withBackup = { ...places, backup: '/data/my backup' }
const truncated = { is: 'truncated', path: '/data/state/data.mdb', bytes: 8192, bytesMin: 12288 } as const

const REPLACE =
  'Restore it with "mv /data/state /data/state.set-aside && cp -a BACKUP/. /data/state", where BACKUP is your backup ' +
  'of the folder state, then start again.'
const GIVE_UP =
  'To give up its runs and workers instead, move /data away and start with a new directory that holds only its ' +
  'config.json'
const EARLIER =
  'it is an old backup of this directory, or the database of another one. First check where it comes from, and ' +
  `whether you have a newer backup. ${REPLACE} Delete /data/installation.json only if you want to go on from this ` +
  'database, then start again'

test.each([
  [
    'a missing database',
    emptiedMessage(places),
    'the database in /data/state is missing or empty, but this directory has been in use. Restore it with "cp -a ' +
      'BACKUP/. /data/state", where BACKUP is your backup of the folder state, then start again. ' +
      GIVE_UP,
  ],
  [
    'a truncated database',
    truncatedMessage(places, truncated, false),
    'the database file /data/state/data.mdb is truncated: it has 8192 bytes, but its content needs 12288. ' +
      `${REPLACE} ${GIVE_UP}`,
  ],
  [
    'a truncated database of a worker',
    truncatedMessage(places, truncated, true),
    'the database file /data/state/data.mdb is truncated: it has 8192 bytes, but its content needs 12288. ' +
      `${REPLACE} To go on without its content instead, move /data/state away and start again`,
  ],
  [
    'a foreign database',
    foreignMessage(places, 'in-b', 'in-a'),
    'the database in /data/state belongs to the installation in-b, but /data/installation.json names in-a. First ' +
      `check whether a wrong folder was copied here, or a wrong --data-dir given. ${REPLACE} Delete ` +
      '/data/installation.json only if this directory shall be the installation in-b from now on, then start again',
  ],
  [
    'a database from before ids',
    outdatedMessage(places, { is: 'known', id: 'in-a' }),
    'the database in /data/state was written by an earlier version and names no installation, but ' +
      `/data/installation.json names in-a: ${EARLIER}`,
  ],
  [
    'a database from before ids beside a damaged record',
    outdatedMessage(places, { is: 'damaged' }),
    'the database in /data/state was written by an earlier version and names no installation, and ' +
      `/data/installation.json is damaged: ${EARLIER}`,
  ],
  [
    'a backup in the data directory',
    howToRestore(withBackup),
    'Restore it with "cp -a \'/data/my backup\'/. /data/state", then start again',
  ],
])('%s', (_what, message, words) => {
  expect(message).toBe(words)
})
