/** The location of sandboxes: reachable for the users that they run as, and for no others. */
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { chooseSandboxLocation } from '../../../../worker/run/disk/sandbox-location.ts'
import { testAsRoot } from '../../../support/skips.ts'

const GID = 1_900_000_000

let top = ''
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), 'switchyard-ground-'))
  chmodSync(top, 0o755)
  for (const name of ['inside', 'data', 'closed', 'closed/inside', 'closed/data']) mkdirSync(join(top, name))
  for (const name of ['inside', 'data']) chmodSync(join(top, name), 0o755)
  chmodSync(join(top, 'closed'), 0o700)
  for (const folder of ['inside', 'closed/inside']) writeFileSync(join(top, folder, 'tool.js'), '1')
})
afterEach(() => rm(top, { recursive: true, force: true }))

const modeOf = (path: string) => statSync(path).mode & 0o777

describe('the sandbox location', () => {
  test('is the data directory for a worker that runs sandboxes as itself', async () => {
    const [dataDir, insidePrograms] = [join(top, 'closed/data'), join(top, 'closed/inside')]
    expect(await chooseSandboxLocation({ dataDir, insidePrograms, nodeProgram: '/usr/bin/node' })).toEqual({
      folder: dataDir,
      insidePrograms,
      node: { program: '/usr/bin/node', mounts: [] },
    })
  })

  testAsRoot(
    'is the data directory for root, if other users can enter its parents; they may pass through it only',
    async () => {
      const [dataDir, insidePrograms] = [join(top, 'data'), join(top, 'inside')]
      const location = await chooseSandboxLocation({
        gid: GID,
        dataDir,
        insidePrograms,
        nodeProgram: '/usr/bin/node',
      })
      expect([location.folder, location.insidePrograms]).toEqual([dataDir, insidePrograms])
      expect([modeOf(dataDir), statSync(dataDir).gid]).toEqual([0o710, GID])
    },
  )

  testAsRoot('is below the configured folder; new parent folders can be passed through', async () => {
    const umask = process.umask(0o077)
    const chosenFolder = join(top, 'far/away')
    const dataDir = join(top, 'closed/data')
    const parts = {
      gid: GID,
      dataDir,
      insidePrograms: join(top, 'inside'),
      nodeProgram: '/usr/bin/node',
      chosenFolder,
    }
    const location = await chooseSandboxLocation(parts)
    process.umask(umask)
    expect(location.folder.startsWith(`${chosenFolder}/`)).toBe(true)
    expect([modeOf(join(top, 'far')), modeOf(chosenFolder), modeOf(location.folder)]).toEqual([
      0o711, 0o711, 0o710,
    ])
    expect((await chooseSandboxLocation(parts)).folder).toBe(location.folder)
    expect((await chooseSandboxLocation({ ...parts, dataDir: join(top, 'data') })).folder).not.toBe(
      location.folder,
    )
  })

  testAsRoot('has copies of the programs and of Node if other users cannot reach them', async () => {
    const closedNode = join(top, 'closed/node')
    writeFileSync(closedNode, '#!/bin/sh\n', { mode: 0o755 })
    const parts = {
      gid: GID,
      dataDir: join(top, 'closed/data'),
      chosenFolder: join(top, 'runs'),
      insidePrograms: join(top, 'closed/inside'),
      nodeProgram: closedNode,
    }
    const { folder, insidePrograms, node } = await chooseSandboxLocation(parts)
    expect([insidePrograms, node]).toEqual([
      join(folder, 'inside'),
      {
        program: '/opt/switchyard-node/node',
        mounts: [{ from: join(folder, 'node'), to: '/opt/switchyard-node/node' }],
      },
    ])
    expect(existsSync(join(insidePrograms, 'tool.js'))).toBe(true)
    writeFileSync(join(top, 'closed/inside/new.js'), '2')
    expect(existsSync(join((await chooseSandboxLocation(parts)).insidePrograms, 'new.js'))).toBe(true)
  })
})
