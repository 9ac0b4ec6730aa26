/** The units of deploy/systemd/: made from the same function as those that commands write, and read by systemd itself. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { unitsToDeploy } from '../../../build/units.ts'
import { formatInstalledFiles } from '../../../core/provision/installed-files.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { describeIf } from '../../support/skips.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const folder = join(import.meta.dirname, '..', '..', '..', 'deploy', 'systemd')
const units = [...unitsToDeploy()]
const isUpdating = process.env.UPDATE_EXPECTATIONS === '1'

test.each(units)('%s is checked in as the functions format it', (path, text) => {
  if (isUpdating) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  expect(readFileSync(join(folder, path), 'utf8')).toBe(text)
})

test('no other unit lies there', () => {
  const found = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.service$/.test(name),
  )
  expect(found.sort()).toEqual(units.map(([path]) => path).sort())
})

const settingOf = (text: string, key: string): string | undefined =>
  new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1]

const provisioned = (['system', 'user'] as const).map((manager) => {
  const { unit } = formatInstalledFiles({
    ...{ base: '/srv/worker', node: '/usr/bin/node', folder: 'switchyard-worker-0.1.0', version: '0.1.0' },
    ...{ url: 'https://host.example:4401', isExposed: false, name: 'vm', concurrency: 2, authority: '' },
    ...{ manager, isRoot: manager === 'system' },
  })
  return [`a provisioned ${manager} worker`, unit] as const
})

describe('each unit', () => {
  test.each([...units, ...provisioned])(
    '%s notifies, is watched, is delegated a control group, and stays down where a restart is useless',
    (_, text) => {
      expect(
        ['Type', 'NotifyAccess', 'WatchdogSec', 'KillMode', 'Delegate'].map((key) => settingOf(text, key)),
      ).toEqual(['notify', 'all', '60', 'mixed', 'yes'])
      const lasting = settingOf(text, 'RestartPreventExitStatus')?.split(' ')
      expect(lasting).toEqual(expect.arrayContaining(['2', '65', '69', '76', '77']))
      // Each of these takes something from bubblewrap that it makes sandboxes with.
      expect(text).not.toMatch(/^(RestrictNamespaces|ProtectKernelTunables|ProtectProc|SystemCall\w+)=/m)
    },
  )

  test.each(units.filter(([path]) => !path.includes('host')))(
    '%s gives the longest run the time to end',
    (_, text) => {
      expect(Number(settingOf(text, 'TimeoutStopSec'))).toBe(configDefaults.sandbox.maxRunMinutes * 60 + 300)
    },
  )
})

const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0

describeIf(hasAnalyze, 'needs systemd-analyze')('systemd', () => {
  test.each(units)('finds nothing to complain about in %s', (path, text) => {
    const place = tempFolder()
    const file = join(place, path.replace('user/', ''))
    // systemd wants the program to be there.
    writeFileSync(file, text.replace('/usr/bin/node', process.execPath))
    const manager = path.startsWith('user/') ? ['--user'] : []
    const { stderr } = spawnSync('systemd-analyze', [...manager, 'verify', file], {
      encoding: 'utf8',
      env: { ...process.env, XDG_RUNTIME_DIR: place, HOME: place },
    })
    expect(stderr).toBe('')
  })
})
