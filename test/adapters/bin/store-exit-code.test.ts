/** A data directory that cannot be used is reported with a cure that keeps its data. */
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/clock.ts'
import type { ExitError } from '../../../bin/exit.ts'
import { storeExitError } from '../../../bin/store-exit-code.ts'
import { openStore } from '../../../store/store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { testAsRoot } from '../../support/skips.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const NOBODY = 65_534

/** Opens the store as a user who owns the directory, but not the file. */
async function openAsNobody(dataDir: string, file: string): Promise<ExitError> {
  mkdirSync(join(dataDir, 'state'), { recursive: true })
  writeFileSync(join(dataDir, file), '{}', { mode: 0o600 })
  for (const path of [dataDir, join(dataDir, 'state')]) chownSync(path, NOBODY, NOBODY)
  chmodSync(dirname(dataDir), 0o711)
  const log = createRecordingLog()
  process.seteuid?.(NOBODY)
  try {
    await openStore({ dataDir, clock: realClock, random: realRandom, log, meters: noMeters })
    throw new Error('the store was opened')
  } catch (error) {
    return storeExitError(error, dataDir)
  } finally {
    process.seteuid?.(0)
  }
}

for (const file of ['state/data.mdb', 'state/lock.mdb', 'installation.json'])
  testAsRoot(`a file ${file} of root is given back, and no backup is restored over it`, async () => {
    const dataDir = join(tempFolder(), 'data')
    const { message, cure } = await openAsNobody(dataDir, file)
    expect(message).toContain(`EACCES: permission denied, open '${dataDir}/${file}'`)
    expect(message).not.toMatch(/backup|another --data-dir/)
    expect(cure).toContain(`sudo chown -R ${NOBODY} ${dataDir}`)
  })
