/** `switchyard service install` under a real systemd. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import type { WorkerView } from '../../protocol/worker.ts'
import { commandPath, configWithAnyPort, readLaunch } from '../support/command-process.ts'
import { testIf } from '../support/skips.ts'
import { until } from '../support/until.ts'
import { canManageUser, openUserManager } from '../support/user-manager.ts'

testIf(canManageUser, 'needs a systemd that manages a user')(
  'install --one starts a host that is ready, names the exit code of one that fails, and uninstall removes it',
  async () => {
    const { home, run, show } = await openUserManager()
    const dataDir = join(home, 'data')
    mkdirSync(dataDir, { mode: 0o700 })
    const configure = (text: string) => writeFileSync(join(dataDir, 'config.json'), text)
    const service = (verb: string, ...more: readonly string[]) =>
      run(process.execPath, commandPath, 'service', verb, '--data-dir', dataDir, ...more)

    configure(configWithAnyPort())
    expect(service('install', '--one')).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^installed: .*runs/),
    })
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
    const failed = service('install', '--one')
    expect([failed.code, failed.err]).toEqual([1, expect.stringMatching(/exit code 78/)])
    expect(show('switchyard', 'SubState', 'NRestarts')).toEqual(['failed', '0'])
    expect(service('uninstall').code).toBe(0)
    expect(show('switchyard', 'LoadState')).toEqual(['not-found'])
  },
  120_000,
)

testIf(canManageUser, 'needs a systemd that manages a user')(
  'install starts a host and a worker that it pairs once, and a restart of the host leaves the worker alone',
  async () => {
    const { home, run, systemctl, show } = await openUserManager()
    const dataDir = join(home, 'data')
    mkdirSync(dataDir, { mode: 0o700 })
    writeFileSync(join(dataDir, 'config.json'), configWithAnyPort({ worker: { local: true } }))
    const command = (...words: readonly string[]) =>
      run(process.execPath, commandPath, ...words, '--data-dir', dataDir)
    const workers = () => JSON.parse(command('workers', '--json').out) as WorkerView[]
    const pidOf = (unit: string) => show(unit, 'MainPID')[0]

    // An installed single service is converted, and its worker stays the same one.
    expect(command('service', 'install', '--one').code).toBe(0)
    await until('the own worker is online', () => workers()[0]?.connection === 'online')
    const [own] = workers()
    const installed = command('service', 'install')
    expect(installed).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^updated and restarted: the host runs .*\ninstalled: the worker .*runs /),
    })
    expect(workers()).toMatchObject([{ id: own?.id, connection: 'online' }])
    expect(workers()[0]?.local).toBeUndefined()

    const [host, worker] = [pidOf('switchyard'), pidOf('switchyard-worker')]
    expect(command('service', 'install').out).toMatch(
      /^nothing changed: the host .*\nnothing changed: the worker/,
    )
    expect(systemctl('restart', 'switchyard').code).toBe(0)
    expect(pidOf('switchyard')).not.toBe(host)
    await until('the worker is back', () => workers()[0]?.connection === 'online')
    expect([workers().length, pidOf('switchyard-worker')]).toEqual([1, worker])
    expect(JSON.parse(command('service', 'status', '--json').out)).toMatchObject({
      running: true,
      worker: { running: true, pid: Number(worker) },
    })
    expect(command('service', 'uninstall').code).toBe(0)
    for (const unit of ['switchyard', 'switchyard-worker'])
      expect(show(unit, 'LoadState')).toEqual(['not-found'])

    // Without a worker of before the new one is paired, and its token is gone.
    rmSync(join(dataDir, 'worker'), { recursive: true })
    expect(command('service', 'install')).toMatchObject({
      code: 0,
      out: expect.stringMatching(/the worker .*runs/),
    })
    await until('the paired worker is online', () =>
      workers().some(({ id, connection }) => id !== own?.id && connection === 'online'),
    )
    expect(existsSync(join(dataDir, 'worker', 'token'))).toBe(false)
    expect(command('service', 'uninstall').code).toBe(0)
  },
  180_000,
)
