/** A data directory that cannot be used is reported with a cure that keeps its data. */
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { ExitError } from '../../../bin/process/exit.ts'
import { storeExitError } from '../../../bin/process/store-exit-code.ts'
import { openStore } from '../../../store/store.ts'
import { runTypeScript } from '../../support/child-process.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { testAsRoot } from '../../support/skips.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'

const NOBODY = 65_534

/** Makes a data directory of a user who does not own what `makeOther` makes in it. */
function giveToNobody(dataDir: string, makeOther: () => void): void {
  mkdirSync(join(dataDir, 'state'), { recursive: true })
  makeOther()
  for (const path of [dataDir, join(dataDir, 'state')]) chownSync(path, NOBODY, NOBODY)
  chmodSync(dirname(dataDir), 0o711)
}

async function openAsNobody(dataDir: string): Promise<ExitError> {
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
    giveToNobody(dataDir, () => writeFileSync(join(dataDir, file), '{}', { mode: 0o600 }))
    const { message, cure } = await openAsNobody(dataDir)
    expect(message).toContain(`EACCES: permission denied, open '${dataDir}/${file}'`)
    expect(message).not.toMatch(/backup|another --data-dir/)
    expect(cure).toContain(`sudo chown -R ${NOBODY} ${dataDir}`)
  })

for (const folder of ['runs', 'usage'])
  testAsRoot(`a host that could keep no report in ${folder}/ does not start`, async () => {
    const dataDir = join(tempFolder(), 'data')
    giveToNobody(dataDir, () => mkdirSync(join(dataDir, folder), 0o755))
    const host = runTypeScript('test/support/store-child.ts', ['own-as', dataDir, `${NOBODY}`])
    await until('the host has answered', () => host.lines.length > 0)
    host.process.kill('SIGKILL')
    expect(host.lines[0]).toContain(`EACCES: permission denied, access '${dataDir}/${folder}'`)
  })
