/** `switchyard workers` against a real listener. */
import { describe, expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/cli/command/run-command.ts'
import type { WaitingOptions } from '../../../bin/cli/workers/watch-fleet.ts'
import { drain, enable, pair, rename, revoke } from '../../../bin/cli/workers/worker-actions.ts'
import { list, show } from '../../../bin/cli/workers/workers.ts'
import { yes } from '../../../core/result.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { fakeRun, fakeWorker, WORKER_ID } from '../../support/fake-host-api.ts'
import { until } from '../../support/until.ts'

const FORGE_ID = 'wk-fedcba9876543210'
const capabilities = {
  os: 'linux',
  arch: 'arm64',
  provider: 'bwrap',
  maxConcurrency: 2,
  version: '0.0.9',
  agents: { agentA: { found: true }, agentB: { found: false } },
}

async function openFleet() {
  const host = await openCommandHost()
  const forge = { ...fakeWorker(FORGE_ID), name: 'forge', connection: 'online' as const, capabilities }
  host.hostApi.workersById.set(FORGE_ID, forge)
  host.hostApi.workersById.set(WORKER_ID, {
    ...fakeWorker(WORKER_ID),
    lastSeenAt: '2026-03-01T07:00:00.000Z',
  })
  /** Tells the dashboards how many runs forge has. */
  const pushForge = (activeRuns: number, attachSessions = 0, attachedRuns: readonly string[] = []) => {
    const terminals = attachSessions === 0 ? {} : { attachSessions, attachedRuns: [...attachedRuns] }
    host.hostApi.workersById.set(FORGE_ID, { ...forge, activeRuns, ...terminals })
    host.hostApi.push({ type: 'workers', workers: [...host.hostApi.workersById.values()] })
  }
  return { ...host, forge, pushForge }
}

describe('workers list', () => {
  test('has all columns on a wide terminal, and keeps names, states and times on a narrow one', async () => {
    const { print } = await openFleet()
    const wide = await print(list, { columns: 200 })
    expect(wide.out).toBe(
      [
        'WORKER  STATE    SLOTS  PLATFORM     VERSION        AGENTS  SEEN        ID',
        'attic   offline  -      -            -              -       2h00m ago  0123',
        'forge   online   0/2    linux arm64  0.0.9 (older)  claude  now        fedc\n',
      ]
        .join('\n')
        .replace('SEEN        ID', 'SEEN       ID'),
    )
    const narrow = await print(list, { columns: 60 })
    expect(narrow.out.split('\n')[0]).toMatch(/^WORKER +STATE +SLOTS .*SEEN$/)
    for (const line of narrow.out.split('\n')) expect(line.length).toBeLessThanOrEqual(60)
  })

  test('is the records of the API with --json, and ids with -o id', async () => {
    const { print, client } = await openFleet()
    const { workers } = await client.listWorkers()
    expect(JSON.parse((await print(list, { options: { json: true } })).out)).toEqual(workers)
    expect((await print(list, { options: { output: 'id' } })).out).toBe(`${WORKER_ID}\n${FORGE_ID}\n`)
  })

  test('names the way to the first worker when there is none', async () => {
    const { print, hostApi } = await openFleet()
    hostApi.workersById.clear()
    const { out, err } = await print(list, { columns: 80 })
    expect([out, err]).toEqual(['', expect.stringContaining('switchyard workers pair')])
  })
})

test('workers show names one worker by the beginning of its id', async () => {
  const { print } = await openFleet()
  const { out, err } = await print((context) => show(context, 'fed'), { columns: 60 })
  expect(out).toMatch(/^forge +online\nworker +wk-fedcba9876543210\n/)
  expect(err).toBe('Next: switchyard workers drain forge\n')
})

test.each(['', ' '])(
  'an empty name %j names no worker, although it is the beginning of every id',
  async (name) => {
    const { print, hostApi } = await openFleet()
    hostApi.workersById.delete(WORKER_ID)
    const refused = print((context) => revoke(context, name), { options: { yes: true } })
    await expect(refused).rejects.toMatchObject({ code: 2, message: 'the name of the worker is empty' })
    expect(hostApi.workersById.has(FORGE_ID)).toBe(true)
  },
)

test('a name that two workers have is refused, and the ids of both are named', async () => {
  const { print, hostApi } = await openFleet()
  hostApi.workersById.set(WORKER_ID, { ...fakeWorker(WORKER_ID), name: 'forge' })
  const refused = print((context) => drain(context, 'forge'))
  await expect(refused).rejects.toMatchObject({
    code: 2,
    message: 'forge may be 0123456789abcdef (forge, offline) or fedcba9876543210 (forge, online)',
    cure: `write more of it, or ${WORKER_ID}`,
  })
  expect((await print((context) => drain(context, FORGE_ID))).code).toBe(0)
})

test('workers show tells who drains a worker, and with which key it joined', async () => {
  const { print, hostApi, forge } = await openFleet()
  hostApi.workersById.set(FORGE_ID, {
    ...forge,
    state: 'draining',
    drainedBy: ['operator', 'supervisor'],
    joinKey: 'jk-1',
    ephemeral: true,
  })
  const { out } = await print((context) => show(context, 'forge'), { columns: 100 })
  expect(out).toMatch(/^enrolled .*, with the join key jk-1; removed by itself after it left$/m)
  expect(out).toMatch(/^drained by an operator, its supervisor$/m)
})

test('the next command names a worker as one word of a shell', async () => {
  const { print, hostApi, forge } = await openFleet()
  hostApi.workersById.set(FORGE_ID, { ...forge, name: 'my box; true' })
  const { err } = await print((context) => show(context, 'fed'), { columns: 60 })
  expect(err).toBe("Next: switchyard workers drain 'my box; true'\n")
})

test('workers pair prints the token alone, and beside it how it is used', async () => {
  const { print, hostApi } = await openFleet()
  const { out, err } = await print(pair)
  expect([out, err]).toEqual(['wp-test\n', expect.stringContaining('--token-file')])
  expect(err).not.toContain('--fingerprint')
  expect(err).toMatch(
    /--host http:\/\/127\.0\.0\.1:\d+ --token-file FILE\nA restart of the host is due.*\n.*fleet\.host ADDRESS/,
  )
  const fleet = { ...configDefaults.fleet, host: '0.0.0.0', tls: { certFile: '/c', keyFile: '/k' } }
  hostApi.config = () => ({ ...configDefaults, fleet })
  expect((await print(pair)).err).toMatch(/--host https:\/\/ADDRESS:4401 --token-file FILE\n$/)
  expect(JSON.parse((await print(pair, { options: { json: true } })).out)).toHaveProperty('expiresAt')
})

test('workers pair prints the fingerprint by which the machine recognises this host', async () => {
  const { print, hostApi } = await openFleet()
  const minted = { token: 'wp-test', expiresAt: '2026-03-01T09:10:00.000Z', fingerprint: 'AB:CD' }
  hostApi.mintPairingToken = () => yes(minted)
  const fleet = { ...configDefaults.fleet, host: '0.0.0.0', tls: { certFile: '/c', keyFile: '/k' } }
  hostApi.config = () => ({ ...configDefaults, fleet })
  // In a narrow terminal, too, the line that people copy is whole.
  const { out, err } = await print(pair, { columns: 60 })
  expect(out).toBe('wp-test\n')
  expect(err).toMatch(
    /^switchyard worker --host https:\/\/ADDRESS:4401 --token-file FILE --fingerprint AB:CD$/m,
  )
  hostApi.config = () => ({ ...configDefaults, fleet: { ...fleet, publicUrl: 'wss://fleet.example' } })
  const behindProxy = await print(pair)
  expect(behindProxy.err).toMatch(/fingerprint AB:CD\./)
  expect(behindProxy.err).not.toContain('--fingerprint')
})

test('workers rename and enable print the changed worker', async () => {
  const { print, hostApi, forge } = await openFleet()
  hostApi.workersById.set(FORGE_ID, { ...forge, state: 'draining' })
  expect((await print((context) => enable(context, 'forge'))).out).toBe('forge takes runs again.\n')
  expect(hostApi.workersById.get(FORGE_ID)?.state).toBe('active')
  expect((await print((context) => rename(context, 'forge', 'anvil'))).out).toBe(
    'forge is called anvil now.\n',
  )
})

test('workers revoke says what is lost, and needs --yes without a terminal', async () => {
  const { print, hostApi } = await openFleet()
  const asked = print((context) => revoke(context, 'forge'))
  await expect(asked).rejects.toMatchObject({
    code: 2,
    message: expect.stringContaining('removes forge for good'),
    cure: 'switchyard workers revoke forge --yes',
  })
  expect(hostApi.workersById.has(FORGE_ID)).toBe(true)
  await print((context) => revoke(context, 'forge'), { options: { yes: true } })
  expect(hostApi.workersById.has(FORGE_ID)).toBe(false)
})

describe('workers drain', () => {
  test('returns at once without --wait', async () => {
    const { print, hostApi } = await openFleet()
    const { code, out } = await print((context) => drain(context, 'forge'))
    expect([code, out]).toEqual([0, 'forge drains: no new runs.\n'])
    expect(hostApi.workersById.get(FORGE_ID)?.state).toBe('draining')
  })

  test('with --wait ends when the last run has ended', async () => {
    const { print, hostApi, pushForge } = await openFleet()
    const run = { ...fakeRun('run-1', 'running'), sandbox: { workerId: FORGE_ID } }
    pushForge(1)
    const hello = { ...hostApi.helloAnswer, runs: [run], workers: [...hostApi.workersById.values()] }
    let isGreeted = false
    hostApi.hello = () => {
      isGreeted = true
      return hello
    }
    const drained = print((context: CommandContext<WaitingOptions>) => drain(context, 'forge'), {
      options: { wait: true },
    })
    await until('the command listens', () => isGreeted)
    pushForge(0, 1)
    pushForge(0, 2, ['run-1', 'run-9'])
    pushForge(0)
    const { code, out, err } = await drained
    expect(err).toMatch(/^0 left; 1 terminal$/m)
    expect(err).toMatch(/^0 left; 2 terminals: ENG-1, run-9$/m)
    expect([code, out]).toEqual([0, expect.stringMatching(/^forge is empty after /)])
    expect(err).toMatch(/1 left: ENG-1 running 30m/)
  })

  test('with --wait ends although a host of an earlier version pushes no end of a lease', async () => {
    const { print, hostApi, forge } = await openFleet()
    const busy = { ...forge, activeRuns: 1 }
    hostApi.workersById.set(FORGE_ID, busy)
    hostApi.hello = () => {
      hostApi.workersById.set(FORGE_ID, forge)
      return { ...hostApi.helloAnswer, workers: [busy] }
    }
    const { code, out } = await print((context: CommandContext<WaitingOptions>) => drain(context, 'forge'), {
      options: { wait: true, timeout: '40s' },
    })
    expect([code, out]).toEqual([0, expect.stringMatching(/^forge is empty after /)])
  })

  test('with --wait exits with 1 when the time ran out', async () => {
    const { print, hostApi, pushForge } = await openFleet()
    pushForge(1)
    hostApi.helloAnswer = { ...hostApi.helloAnswer, workers: [...hostApi.workersById.values()] }
    const { code, out, err } = await print(
      (context: CommandContext<WaitingOptions>) => drain(context, 'forge'),
      { options: { wait: true, timeout: '1s' } },
    )
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(/^forge is not empty after .*: 1 left.*; its drain goes on\.$/m)
  })
})

test('the real command prints to a pipe, and exits with 1 for an unknown worker and 2 for a missing --yes', async () => {
  const { run } = await openFleet()
  const [listed, unknown, careful] = await Promise.all([
    run('workers', '--json'),
    run('workers', 'show', 'nobody'),
    run('workers', 'revoke', 'forge'),
  ])
  expect([listed.code, JSON.parse(listed.out)]).toEqual([0, expect.any(Array)])
  expect([unknown.code, unknown.out]).toEqual([1, ''])
  expect([careful.code, careful.err]).toEqual([2, expect.stringContaining('--yes')])
})
