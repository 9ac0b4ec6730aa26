/** Tests of the verdict on a database that was found in a data directory, case by case. */
import { expect, test } from '@jest/globals'
import {
  type FoundDatabase,
  isInstallationId,
  judgeDatabase,
  newInstallationId,
  type RecordedInstallation,
} from '../../core/installation.ts'

const own = 'in-00000000000000aa'
const foreign = 'in-00000000000000bb'
const fresh: RecordedInstallation = { is: 'none', hasHistory: false }
const used: RecordedInstallation = { is: 'none', hasHistory: true }
const damaged: RecordedInstallation = { is: 'damaged' }
const known: RecordedInstallation = { is: 'known', id: own }
const empty: FoundDatabase = { is: 'empty' }
const unnamed: FoundDatabase = { is: 'unnamed' }
const truncated: FoundDatabase = {
  is: 'truncated',
  path: '/data/state/data.mdb',
  bytes: 8192,
  bytesMin: 12288,
}
const named = (id: string): FoundDatabase => ({ is: 'named', id })

test.each<readonly [string, RecordedInstallation, FoundDatabase, object]>([
  ['a new directory', fresh, empty, { is: 'new' }],
  ['a directory of an earlier version', used, unnamed, { is: 'new' }],
  ['the same before its first run', fresh, unnamed, { is: 'new' }],
  ['a directory of an earlier version without its database', used, empty, { is: 'emptied' }],
  ['an installation without its database', known, empty, { is: 'emptied' }],
  ['an installation whose record is damaged, without its database', damaged, empty, { is: 'emptied' }],
  ['an installation whose database is truncated', known, truncated, truncated],
  ['a database that is truncated where nothing is recorded', fresh, truncated, truncated],
  ['an installation with its database', known, named(own), { is: 'own', id: own }],
  [
    'an installation with the database of another',
    known,
    named(foreign),
    { is: 'foreign', id: foreign, recordedId: own },
  ],
  ['an installation with a database from before ids', known, unnamed, { is: 'outdated' }],
  ['a damaged record with a database from before ids', damaged, unnamed, { is: 'outdated' }],
  ['a database whose record was not written', fresh, named(own), { is: 'own', id: own }],
  ['a damaged record with a database', damaged, named(own), { is: 'own', id: own }],
])('%s', (_what, recorded, found, verdict) => {
  expect(judgeDatabase(recorded, found)).toEqual(verdict)
})

test('an id has 64 random bits', () => {
  const id = newInstallationId(new Uint8Array(8).fill(0xab))
  expect(id).toBe('in-abababababababab')
  expect(isInstallationId(id)).toBe(true)
  expect(() => newInstallationId(new Uint8Array(7))).toThrow(RangeError)
  for (const bad of ['', 'in-', 'in-ABABABABABABABAB', `${id}0`, undefined, 7])
    expect(isInstallationId(bad)).toBe(false)
})
