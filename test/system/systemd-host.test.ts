/** `switchyard service install` under a real systemd. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { commandPath, configWithAnyPort, readLaunch } from '../support/command-process.ts'
import { testIf } from '../support/skips.ts'
import { canManageUser, openUserManager } from '../support/user-manager.ts'

testIf(canManageUser, 'needs a systemd that manages a user')(
  'install starts a host that is ready, names the exit code of one that fails, and uninstall removes it',
  async () => {
    const { home, run, show } = await openUserManager()
    const dataDir = join(home, 'data')
    mkdirSync(dataDir, { mode: 0o700 })
    const configure = (text: string) => writeFileSync(join(dataDir, 'config.json'), text)
    const service = (verb: string, ...more: readonly string[]) =>
      run(process.execPath, commandPath, 'service', verb, '--data-dir', dataDir, ...more)

    configure(configWithAnyPort())
    expect(service('install')).toMatchObject({ code: 0, out: expect.stringMatching(/^installed: .*runs/) })
    const launch = readLaunch(dataDir)
    expect(show('switchyard', 'MainPID', 'StatusText')).toEqual([
      String(launch?.pid),
      `serves ${launch?.url}`,
    ])
    const status = service('status', '--json')
    expect(JSON.parse(status.out)).toMatchObject({ running: true, enabled: true, url: launch?.url })

    run('systemctl', '--user', 'stop', 'switchyard')
    expect(show('switchyard', 'Result', 'SubState')).toEqual(['success', 'dead'])
    configure('{ "server": { "port": "none" } }')
    const failed = service('install')
    expect([failed.code, failed.err]).toEqual([1, expect.stringMatching(/exit code 78/)])
    expect(show('switchyard', 'SubState', 'NRestarts')).toEqual(['failed', '0'])
    expect(service('uninstall').code).toBe(0)
    expect(show('switchyard', 'LoadState')).toEqual(['not-found'])
  },
  120_000,
)
