/** `switchyard doctor` in print, and the findings that need an odd machine: a silent host, a slow or a broken check. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { CHECKS, type DoctorOptions, examineAndPrint } from '../../../bin/cli/doctor/doctor.ts'
import { type Check, DOCTOR_CHECK_MS_MAX, examine, type Finding } from '../../../bin/cli/doctor/examine.ts'
import type { ExaminedMachine, FoundHost } from '../../../bin/cli/doctor/examined-machine.ts'
import { no, yes } from '../../../core/result.ts'
import { configDefaults, type ServiceConfig } from '../../../protocol/config.ts'
import { nodeListener } from '../../../transport/node/node-listener.ts'
import type { SandboxUnavailable } from '../../../worker/sandbox/driver.ts'
import { openCommandHost, type PrintedCommand } from '../../support/command-host.ts'
import { fakeWorker } from '../../support/fake-host-api.ts'
import { testAsRoot } from '../../support/skips.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { createSettableClock } from '../../support/test-resources.ts'

const NOW = Date.parse('2026-03-01T09:00:00.000Z')

function configured(): ServiceConfig {
  const { tracker, codehost, repos, agent, server } = configDefaults
  return {
    ...configDefaults,
    server: { ...server, port: 0 },
    tracker: { ...tracker, driver: 'local', path: '/' },
    codehost: { ...codehost, driver: 'local', path: '/' },
    agent: { ...agent, agentAApiKey: 'sk-ant-0123456789' },
    repos: { ...repos, app: { remote: 'acme/app' } },
  }
}

function machineWith(more: Partial<ExaminedMachine> = {}): ExaminedMachine {
  const dataDir = tempFolder()
  writeFileSync(join(dataDir, 'config.json'), '{}', { mode: 0o600 })
  return {
    place: 'host',
    dataDir,
    environment: {},
    now: () => NOW,
    nodeVersion: '24.21.0',
    listener: () => ({ listener: nodeListener }),
    sandbox: async () => ({
      ok: true,
      provider: 'bwrap',
      walls: ['namespaces'],
      missingWalls: ['Landlock (no kernel of a test has it)'],
      createLauncher: () => {
        throw new Error('the doctor starts no sandbox')
      },
    }),
    git: async () => yes('2.39.5'),
    agents: async () => ({ agentA: { found: true, version: '2.1.4', loggedIn: true } }),
    config: async () => yes(configured()),
    host: async () => ({ is: 'none' }),
    trackerAccount: async () => undefined,
    codehostAccount: async () => undefined,
    clients: () => {
      throw new Error('nothing is asked')
    },
    clocks: [],
    close: async () => {},
    ...more,
  }
}

async function print(
  machine: ExaminedMachine,
  columns?: number,
  options: DoctorOptions = {},
): Promise<PrintedCommand> {
  const host = await openCommandHost()
  return await host.print((context) => examineAndPrint(context, () => machine), {
    ...(columns === undefined ? {} : { columns }),
    options,
  })
}

const NO_BWRAP: SandboxUnavailable = {
  ok: false,
  reason: 'bwrap-unavailable',
  detail: 'no bwrap',
  fault: {
    of: 'program',
    problem: 'bwrap is not installed',
    cure: 'sudo apt-get install bubblewrap',
  },
}

const broken = () =>
  machineWith({
    sandbox: async () => NO_BWRAP,
    git: async () => no('unavailable', 'this git of 2018 is too old for a worker of today; get another'),
  })

describe('on a terminal', () => {
  test('a machine in order has one line, and --all shows each finding', async () => {
    const { code, out } = await print(machineWith(), 80)
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^\d+ ok\. Each of them: switchyard doctor --all\n$/),
    ])
    const whole = await print(machineWith(), 80, { all: true })
    expect(whole.out).toMatch(
      /^ok {4}sandbox {4}bwrap isolates runs on this machine: namespaces, no Landlock\s+\(no kernel of a test has it\)\nok {4}userns {5}/,
    )
    expect(whole.out).toMatch(/\n\d+ ok\.\n$/)
  })

  test('the cure follows the finding, and stands whole in a line of its own where that is too narrow', async () => {
    const wide = await print(broken(), 120)
    expect(wide.code).toBe(1)
    expect(wide.out.split('\n')).toEqual([
      'fail  sandbox    bwrap is not installed: sudo apt-get install bubblewrap',
      'fail  git        this git of 2018 is too old for a worker of today: get another',
      expect.stringMatching(/^\d+ ok, 2 fail\.$/),
      '',
    ])
    const narrow = await print(broken(), 60)
    expect(narrow.out.split('\n').slice(0, 5)).toEqual([
      'fail  sandbox    bwrap is not installed:',
      '                 sudo apt-get install bubblewrap',
      'fail  git        this git of 2018 is too old for a worker of',
      '                 today:',
      '                 get another',
    ])
  })

  test('its cures name the data directory that was given', async () => {
    const machine = machineWith()
    writeFileSync(join(machine.dataDir, 'launch.json'), '{}', { mode: 0o644 })
    const { out } = await print(machine, 120, { dataDir: '/srv/z' })
    expect(out).toMatch(/launch\.json: its mode is 0644:\s+switchyard doctor --fix --data-dir \/srv\/z\n/)
    expect(out).toMatch(/ mended safely: switchyard doctor --fix --data-dir \/srv\/z\n$/)
  })

  test('what --fix would mend is said in the last line', async () => {
    const machine = machineWith()
    writeFileSync(join(machine.dataDir, 'launch.json'), '{}', { mode: 0o644 })
    const { code, out } = await print(machine, 80)
    expect(code).toBe(0)
    expect(out).toMatch(/1 warn\. What can be mended safely: switchyard doctor --fix\n$/)
    const narrow = await print(machine, 44)
    expect(narrow.out).toMatch(/1 warn\. What can be mended safely:\n {2}switchyard doctor --fix\n$/)
  })
})

test('elsewhere than on a terminal each finding is a line of values', async () => {
  const { out, err } = await print(broken())
  const [heading, sandbox] = out.split('\n')
  expect(heading).toBe('STATUS\tID\tMESSAGE\tCURE')
  expect(sandbox).toBe('fail\tsandbox\tbwrap is not installed\tsudo apt-get install bubblewrap')
  expect(err).toMatch(/^\d+ ok, 2 fail\.\n$/)
})

test('a check that never answers is named with its time limit, and one that throws with its error', async () => {
  const clock = createSettableClock()
  const check = (id: string, judge: Check['judge']): Check => ({ id, places: ['host'], judge })
  const checks = [
    check('slow', () => new Promise(() => {})),
    check('odd', async () => {
      throw new Error('it is odd')
    }),
  ]
  const waiting: (readonly string[])[] = []
  const found = examine(machineWith(), checks, clock, (ids) => waiting.push(ids))
  // The odd check has an answer by then.
  await new Promise(setImmediate)
  expect(waiting).toEqual([['slow', 'odd'], ['slow']])
  clock.wind(DOCTOR_CHECK_MS_MAX)
  expect(await found).toEqual([
    {
      id: 'slow',
      status: 'warn',
      message: expect.stringMatching(/^could not be checked within 20 s$/),
      cure: 'switchyard doctor',
    },
    { id: 'odd', status: 'fail', message: 'it is odd' },
  ])
})

async function findingsOf(id: string, more: Partial<ExaminedMachine>) {
  const checks = CHECKS.filter((check) => check.id === id)
  const found = await examine(machineWith(more), checks, createSettableClock())
  return found.map(({ status, message, cure }) => [status, message, ...(cure === undefined ? [] : [cure])])
}

const hostIs = (found: FoundHost): Partial<ExaminedMachine> => ({ host: async () => found })

const hostRuns = (facts: Partial<Extract<FoundHost, { is: 'running' }>>): Partial<ExaminedMachine> =>
  hostIs({
    is: 'running',
    url: 'http://127.0.0.1:4400',
    health: { ok: true, version: '1.0.0', sandboxProvider: 'bwrap' },
    tracker: { state: 'connected' },
    workers: [],
    attention: [],
    metrics: '',
    ...facts,
  })

test.each<[string, string, Partial<ExaminedMachine>, readonly unknown[]]>([
  [
    'a process that holds the data directory and does not answer',
    'host',
    hostIs({
      is: 'silent',
      reason: 'no host answers',
      owner: { pid: 4711, isAlive: true, description: 'process 4711 on forge' },
    }),
    [
      'warn',
      expect.stringMatching(/^process 4711 on forge uses .*no host answers$/),
      expect.stringContaining('kill 4711'),
    ],
  ],
  [
    'a host that refuses the token',
    'host',
    hostIs({ is: 'refusing', reason: 'the host refused SWITCHYARD_TOKEN', cure: 'unset SWITCHYARD_TOKEN' }),
    ['fail', 'the host refused SWITCHYARD_TOKEN', 'unset SWITCHYARD_TOKEN'],
  ],
  [
    'a login that the host does not have',
    'logins',
    { config: async () => yes({ ...configured(), agent: configDefaults.agent }) },
    [
      'fail',
      expect.stringMatching(/^claude is logged in on this machine, but the host has no credential$/),
      'switchyard connect claude',
    ],
  ],
  [
    'a tracker out of reach, which says nothing about the credential',
    'tracker',
    {
      config: async () => yes(configDefaults),
      trackerAccount: async () => no('unavailable', 'the tracker does not answer'),
    },
    [
      'warn',
      'linear is out of reach: the tracker does not answer',
      expect.stringMatching(/^check the network, and switchyard config get tracker\.apiUrl$/),
    ],
  ],
  [
    'a ticket that cannot be read',
    'tracker',
    hostRuns({ tracker: { state: 'connected', error: 'ENG-7.md, line 1: must be ---' } }),
    ['warn', 'local: ENG-7.md, line 1: must be ---', 'mend these files in /'],
  ],
  [
    'a folder of tickets that is away',
    'tracker',
    hostRuns({ tracker: { state: 'connected', error: 'tracker.path: / does not exist' } }),
    [
      'warn',
      'local: tracker.path: / does not exist',
      expect.stringMatching(/config set tracker\.path FOLDER$/),
    ],
  ],
  [
    'a machine that is no Linux',
    'sandbox',
    {
      sandbox: async () => ({ ok: false, reason: 'unsupported-platform', detail: 'the sandbox needs Linux' }),
    },
    [
      'warn',
      'the sandbox needs Linux',
      expect.stringMatching(/^run a worker on another machine: switchyard workers provision USER@HOST$/),
    ],
  ],
  [
    'a clock that is a little behind',
    'clock',
    { clocks: [{ service: 'api.example', aheadMs: -90_000 }] },
    [
      'warn',
      'this clock is 1m30s behind api.example',
      expect.stringMatching(/^sudo timedatectl set-ntp true$/),
    ],
  ],
  [
    'a git that is too old for what the local code host does',
    'git',
    { git: async () => yes('2.37.1') },
    ['warn', expect.stringMatching(/needs git 2\.38/), expect.stringMatching(/^install a newer one/)],
  ],
  [
    'a tracker that does not answer the host',
    'tracker',
    {
      config: async () => yes({ ...configured(), tracker: configDefaults.tracker }),
      ...hostRuns({ tracker: { state: 'connected', error: '503' } }),
    },
    ['warn', 'linear: 503', expect.stringMatching(/^check the network, .* tracker\.apiUrl$/)],
  ],
])('%s is named with its cure', async (_, id, more, finding) => {
  expect(await findingsOf(id, more)).toEqual([finding])
})

test('on the machine of a worker alone, no host is looked for', async () => {
  const { out } = await print(machineWith({ place: 'worker' }), undefined, { json: true })
  const ids = JSON.parse(out).findings.map(({ id }: { id: string }) => id)
  expect(ids).toEqual(expect.arrayContaining(['sandbox', 'git', 'agents', 'data', 'disk']))
  for (const id of ['config', 'host', 'port', 'tracker', 'workers']) expect(ids).not.toContain(id)
})

testAsRoot('root’s sandboxes are on another disk than the data directory, and both are judged', async () => {
  const machine = machineWith()
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1M,mode=700', 'none', machine.dataDir])
  try {
    const found = await findingsOf('disk', machine)
    const folders = found.map(([status, message]) => [status, / free in ([^:]+)/.exec(message ?? '')?.[1]])
    expect(folders).toEqual([
      ['fail', machine.dataDir],
      [expect.any(String), expect.stringMatching(/^\/var\/lib/)],
    ])
  } finally {
    execFileSync('umount', ['--lazy', machine.dataDir])
  }
})

test('with SWITCHYARD_URL the host there is asked, and this machine is left out', async () => {
  const host = await openCommandHost()
  const forge = { ...fakeWorker('wk-fedcba9876543210'), name: 'forge', connection: 'online' as const }
  const capabilities = { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 1, version: '0.0.8' }
  host.hostApi.workersById.set(forge.id, { ...forge, capabilities })
  host.hostApi.helloAnswer = { ...host.hostApi.helloAnswer, linearStatus: { state: 'auth-error' } }
  const { code, out } = await host.run('doctor', '--json')
  const findings: Finding[] = JSON.parse(out).findings
  expect(code).toBe(1)
  expect(findings.map(({ id, status }) => `${status} ${id}`)).toEqual([
    'ok host',
    'fail tracker',
    'fail codehost',
    'warn workers',
    'warn skew',
  ])
  expect(findings.at(-1)?.message).toMatch(/^worker forge is 0\.0\.8/)
})

test('--bundle for a host elsewhere has no log of this machine', async () => {
  const machine = machineWith({ place: 'elsewhere' })
  writeFileSync(join(machine.dataDir, 'host.log'), 'a line of another host\n')
  const file = join(tempFolder(), 'report.tar.gz')
  const { err } = await print(machine, undefined, { bundle: file })
  expect(err).toMatch(/: about\.json, findings\.json, config\.json\n/)
})

test('the command in a cure names a worker as one word of a shell', async () => {
  const away = { ...fakeWorker('wk-fedcba9876543210'), name: 'my box; true', connection: 'offline' as const }
  const online = { ...away, name: 'forge', connection: 'online' as const }
  const found = await findingsOf('workers', hostRuns({ workers: [away, online] }))
  expect(found[0]?.[2]).toMatch(/workers revoke 'my box; true'$/)
})

test('damage that a running host knows is a failure, as where no host runs', async () => {
  const since = '2026-03-01T08:30:00.000Z'
  const item = (kind: 'damage' | 'disk') => ({ id: kind, kind, message: `trouble of the ${kind}`, since })
  const found = await findingsOf('host', hostRuns({ attention: [item('damage'), item('disk')] }))
  expect(found.map(([judgement]) => judgement)).toEqual(['ok', 'fail', 'warn'])
})

test('what needs a person has the cure of its own words, and the tracker is judged once', async () => {
  const since = '2026-03-01T08:30:00.000Z'
  const attention = [
    { id: 'codehost', kind: 'codehost' as const, message: "acme/app can't be read: no main; push it", since },
    { id: 'tracker', kind: 'tracker' as const, message: 'local: ENG-7.md, line 1: must be ---', since },
  ]
  expect((await findingsOf('host', hostRuns({ attention }))).slice(1)).toEqual([
    ['warn', "acme/app can't be read: no main", 'push it'],
  ])
})

test('--bundle that cannot be written is wrong use, and nothing of it is left', async () => {
  const folder = join(tempFolder(), 'there')
  mkdirSync(folder)
  await expect(print(machineWith(), undefined, { bundle: folder })).rejects.toMatchObject({
    code: 2,
    message: expect.stringMatching(/exists and is left/),
  })
})

test('a Node without fixes, a missing native listener and an altered binary are named', async () => {
  const judged = async (more: Partial<ExaminedMachine>) => await findingsOf('node', more)
  const reason = 'it is too old'
  const listener = () => ({ listener: nodeListener, reason })
  expect(await judged({ listener })).toEqual([['ok', `node 24.21.0, listener node:http (${reason})`]])
  expect(await judged({ nodeVersion: '20.20.2', now: () => Date.parse('2026-05-01') })).toEqual([
    [
      'warn',
      expect.stringMatching(/^node 20\.20\.2 .* since 2026-04-30, listener node:http$/),
      expect.stringMatching(/Node 24/),
    ],
  ])
  const altered = { listener: nodeListener, reason: 'altered', alteredFile: '/opt/uws.node' }
  expect(await judged({ listener: () => altered })).toEqual([
    ['fail', expect.stringMatching(/^\/opt\/uws\.node /), expect.any(String)],
  ])
})
