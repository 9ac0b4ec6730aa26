/** Provisioning with a scripted machine: what is asked of it in which order, and what is left of each failure. */
import { describe, expect, test } from '@jest/globals'
import { PROVISION_ONLINE_MS_MAX } from '../../actors/provisioning/install-worker.ts'
import { PROVISIONS_MAX } from '../../actors/provisioning/provisioning.ts'
import { hashSecret } from '../../core/fleet/token.ts'
import type { RemoteCommand, RemoteOutput, RemoteShell } from '../../core/ports/machines.ts'
import { SCRIPTS } from '../../core/provision/scripts.ts'
import { remoteInput } from '../../core/provision/target.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ProvisionPush, ProvisionRequest, ProvisionResponse } from '../../protocol/provision.ts'
import { configWith, enroll, HostConversation, registerWithToken } from './host-conversation.ts'

type ScriptName = keyof typeof SCRIPTS
const NAMES = new Map(Object.entries(SCRIPTS).map(([name, script]) => [script, name as ScriptName]))

const FACTS = `system Linux
machine x86_64
libc glibc 2.36
uid 1000
base /home/ann/.local/lib/switchyard-worker
manager none
node /usr/bin/node
nodeVersion v20.19.0
git git version 2.39.5
bwrap /usr/bin/bwrap
bwrapVersion bubblewrap 0.8.0
sandbox works
free 43000000
files 1000000 900000
`
const FILE = { bytes: 1_000, sha256: 'f'.repeat(64), read: async function* () {} }
const PACKAGE = { ...FILE, version: '0.2.0', folder: 'switchyard-worker-0.2.0' }
const REQUEST: ProvisionRequest = { host: 'forge', user: 'ann' }

type Answer = Partial<RemoteOutput> | Result<never>

/** A machine whose answers a test sets by the name of the script. */
class ScriptedMachine {
  readonly ran: ScriptName[] = []
  readonly commands: RemoteCommand[] = []
  /** Called with the token when the worker starts. */
  onStart: (token: string) => void = () => {}
  answers: Partial<Record<ScriptName, Answer | Promise<Answer>>> = {}
  more = ''
  connections = 0
  isReachable = true

  readonly connect = async (): Promise<Result<RemoteShell>> => {
    if (!this.isReachable) return no('failed', 'no answer')
    this.connections += 1
    let isOpen = true
    return yes({
      hostKey: 'ED25519 SHA256:abc',
      hostKeyFrom: 'known_hosts',
      localAddress: '127.0.0.1',
      run: async (command) => (isOpen ? this.#run(command) : no('unavailable', 'the connection was lost')),
      close: () => {
        isOpen = false
      },
    })
  }

  async #run(command: RemoteCommand): Promise<Result<RemoteOutput>> {
    const name = NAMES.get(command.script)
    if (name === undefined) throw new Error('a script that is not constant')
    this.ran.push(name)
    this.commands.push(command)
    if (name === 'start') this.onStart(command.values[0] ?? '')
    const answer = await this.answers[name]
    if (answer !== undefined && 'ok' in answer) return answer
    const out = { check: `${FACTS}${this.more}end checked\n`, reach: 'answered 403\n', status: 'running\n' }[
      String(name)
    ]
    return yes({ code: 0, out: out ?? '', err: '', ...answer })
  }

  /** The values that the script was given. */
  valuesOf(name: ScriptName): readonly string[] {
    return this.commands.find(({ script }) => script === SCRIPTS[name])?.values ?? []
  }
}

async function openHost(fleet: object = { host: '0.0.0.0' }) {
  const host = new HostConversation(configWith({ fleet }))
  const machine = new ScriptedMachine()
  host.overrides = {
    provisioning: {
      machines: machine,
      files: {
        findPackage: async () => yes(PACKAGE),
        hostNode: async () => undefined,
        fleetAuthority: async () => undefined,
      },
      fleetPort: () => 4401,
    },
  }
  await host.start()
  machine.onStart = (token) => {
    if (token !== '') void host.connect('forge').send(registerWithToken(token, 'forge'))
  }
  const pushes: ProvisionPush[] = []
  host.hostApi.onPush((push) => {
    if (push.type === 'provision') pushes.push(push)
  })
  /** Lets time pass until the answer is there. */
  const provision = async (request: ProvisionRequest = REQUEST) => {
    let answer: Result<ProvisionResponse> | undefined
    void host.hostApi.provisionWorker(request).then((given) => {
      answer = given
    })
    for (let seconds = 0; answer === undefined && seconds < 4_000; seconds += 1)
      await host.clock.advance(1_000)
    if (answer === undefined) throw new Error('no answer')
    return answer
  }
  return { host, machine, pushes, provision }
}

const refusalOf = (answer: Result<ProvisionResponse>) => (answer.ok ? undefined : answer.refusal)
const workersOf = (host: HostConversation) => host.hostApi.fleet().workers.map(({ name }) => name)

test('the steps of a new worker are pushed as they begin and end, and are the output of the answer', async () => {
  const { host, machine, pushes, provision } = await openHost()
  const answer = await provision()
  expect(machine.ran).toEqual(['check', 'reach', 'copy', 'install', 'start', 'finish'])
  expect(pushes.map(({ step, status, number }) => `${number} ${step} ${status}`)).toEqual([
    '1 connect running',
    '1 connect done',
    '2 check running',
    '2 check done',
    '3 copy running',
    '3 copy done',
    '4 install running',
    '4 install done',
    '5 pair running',
    '5 pair done',
    '6 online running',
    '6 online done',
  ])
  expect(pushes.every(({ id, count }) => id === 'ann@forge' && count === 6)).toBe(true)
  expect(answer.ok && answer.value.output.split('\n').map((line) => line.slice(0, 16))).toEqual([
    '1/6 connect  ok ',
    '2/6 check    ok ',
    '3/6 copy     ok ',
    '4/6 install  ok ',
    '5/6 pair     ok ',
    '6/6 online   ok ',
    '',
  ])
  expect(workersOf(host)).toEqual(['forge'])
  expect(host.countOf('provisions_total done')).toBe(1)
})

test('a provisioned worker dials fleet.publicUrl', async () => {
  const { machine, provision } = await openHost({ host: '127.0.0.1', publicUrl: 'https://fleet.example.org' })
  await provision()
  expect(machine.valuesOf('install')[1]).toContain(' --host https://fleet.example.org ')
})

test('name and concurrency reach the worker’s command line, quoted', async () => {
  const { machine, provision } = await openHost()
  await provision({ ...REQUEST, name: "it's; $(id)", concurrency: 7 })
  const start = machine.valuesOf('install')[1] ?? ''
  expect(start).toContain(`'--name=it'\\''s; $(id)' --concurrency=7`)
})

describe('before anything is done a provisioning is refused', () => {
  test.each([
    ['while the fleet listener is off', {}],
    ['while the fleet listener is on loopback', { host: '127.0.0.1' }],
  ])('%s', async (_, fleet) => {
    const { machine, provision } = await openHost(fleet)
    expect(refusalOf(await provision())?.kind).toBe('conflict')
    expect(machine.connections).toBe(0)
  })

  test('with a wrong field', async () => {
    const { machine, provision } = await openHost()
    expect(refusalOf(await provision({ ...REQUEST, host: '-oX' }))?.message).toMatch(/^\/host: /)
    expect(machine.connections).toBe(0)
  })

  test('while the same machine is being provisioned, and while too many are', async () => {
    const { host, machine, provision } = await openHost()
    let release: (answer: Answer) => void = () => {}
    machine.answers.check = new Promise((resolve) => {
      release = resolve
    })
    const begun = Array.from({ length: PROVISIONS_MAX }, (_, at) => provision({ ...REQUEST, host: `m${at}` }))
    await host.settle()
    expect(refusalOf(await provision({ ...REQUEST, host: 'm0' }))?.message).toContain('already')
    expect(refusalOf(await provision())?.kind).toBe('conflict')
    release(no('failed', 'no answer within 120 s'))
    await Promise.all(begun)
    expect(host.census().provisioning).toBe(0)
  })
})

describe('a connection that is lost', () => {
  test.each<[ScriptName, string]>([
    ['copy', 'copy'],
    ['install', 'install'],
    ['start', 'pair'],
    ['finish', 'online'],
  ])('during %s is made again, and what was done is undone', async (script, step) => {
    const { host, machine, pushes, provision } = await openHost()
    machine.answers[script] = no('unavailable', 'the connection was lost')
    const refusal = refusalOf(await provision())
    expect(refusal?.kind).toBe('failed')
    expect(refusal?.message).not.toContain('could not be undone')
    expect(machine.ran.at(-1)).toBe('undo')
    expect(pushes.at(-1)).toMatchObject({ step, status: 'failed' })
    expect(workersOf(host)).toEqual([])
    expect(host.countOf(`provisions_total ${step}`)).toBe(1)
  })

  test('during the check leaves nothing to undo', async () => {
    const { machine, provision } = await openHost()
    machine.answers.check = no('unavailable', 'the connection was lost')
    await provision()
    expect(machine.ran).toEqual(['check'])
  })

  test('for good is said, with what cures it', async () => {
    const { machine, provision } = await openHost()
    machine.answers.install = no('unavailable', 'the connection was lost')
    machine.answers.undo = no('unavailable', 'the connection was lost')
    expect(refusalOf(await provision())?.message).toContain('could not be undone (the connection was lost)')
    expect(machine.connections).toBe(4)
  })
})

test('a worker that ends is named with its own words, and its log without the token', async () => {
  const { host, machine, provision } = await openHost()
  let token = ''
  machine.onStart = (given) => {
    token = given
    machine.answers.status = { out: `ended 69\n{"level":50}\nswitchyard: no sandbox \u001b[31m${given}\n` }
  }
  const refusal = refusalOf(await provision())
  expect(token).toMatch(/^wp-/)
  expect(refusal?.message).toContain('the worker on forge ended with 69: no sandbox [31m***')
  expect(JSON.stringify([refusal, host.log.lines])).not.toContain(token)
  expect(machine.ran.at(-1)).toBe('undo')
})

test('a worker that does not come is awaited for a bounded time', async () => {
  const { host, machine, provision } = await openHost()
  machine.onStart = () => {}
  const began = host.clock.monotonic()
  expect(refusalOf(await provision())?.message).toContain('did not redeem its token in time')
  expect(host.clock.monotonic() - began).toBeLessThan(PROVISION_ONLINE_MS_MAX + 10_000)
})

test('a token of a failed provisioning enrolls nobody later', async () => {
  const { host, machine, provision } = await openHost()
  let token = ''
  machine.onStart = (given) => {
    token = given
  }
  await provision()
  const late = host.connect('late')
  await late.send(registerWithToken(token))
  expect(late.lastReceived('rejected').code).toBe('invalid-token')
})

test('a machine that is a worker of another host is left alone', async () => {
  const { machine, provision } = await openHost()
  machine.more = 'installed 0.2.0 abc\nworkerId wk-0123456789abcdef\ninstallation another\nrunning yes\n'
  expect(refusalOf(await provision())?.message).toContain('is a worker of another host')
  expect(machine.ran).toEqual(['check'])
})

describe('a machine that names a worker of this host', () => {
  async function provisionAs(
    proofOf: (credential: string) => string,
    before: (host: HostConversation, workerId: string) => Promise<unknown> = async () => undefined,
  ) {
    const opened = await openHost()
    const { host, machine } = opened
    const { workerId, credential } = await enroll(host, 'other')
    await before(host, workerId)
    const installation = String(host.store.installation)
    machine.more = `installed 0.1.0 abc\nworkerId ${workerId}\ninstallation ${installation}\nproof ${proofOf(credential)}\nrunning yes\n`
    const drains: string[] = []
    host.hostApi.onPush(() => {
      const [worker] = host.hostApi.fleet().workers
      if (worker?.state === 'draining') drains.push(worker.name)
    })
    await opened.provision()
    return { ...opened, drains }
  }

  test('without its credential stops no run of that worker, and gets an enrollment of its own', async () => {
    const { host, drains } = await provisionAs(() => '0'.repeat(64))
    expect(drains).toEqual([])
    expect(workersOf(host).sort()).toEqual(['forge', 'other'])
  })

  test('and has its credential is upgraded: that worker drains first', async () => {
    const { pushes } = await provisionAs((credential) => hashSecret(credential))
    expect(pushes.map(({ step }) => step)).toContain('drain')
    expect(pushes.map(({ step }) => step)).not.toContain('pair')
  })

  test('stays drained after an upgrade where an operator had drained it', async () => {
    const { host } = await provisionAs(
      (credential) => hashSecret(credential),
      (opened, workerId) => opened.succeeded(opened.hostApi.drainWorker(workerId)),
    )
    expect(host.hostApi.fleet().workers).toMatchObject([{ state: 'draining', drainedBy: ['operator'] }])
  })
})

test('a host that stops undoes what it has begun, and answers', async () => {
  const { host, machine } = await openHost()
  machine.onStart = () => {}
  let answer: Result<ProvisionResponse> | undefined
  void host.hostApi.provisionWorker(REQUEST).then((given) => {
    answer = given
  })
  await host.clock.advance(5_000)
  expect(machine.ran.at(-1)).toBe('status')
  await host.restart()
  await host.clock.advance(5_000)
  expect(machine.ran.at(-1)).toBe('undo')
  expect(answer).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
})

test('every value is sent on standard input, in the order in which the script reads it', () => {
  expect(remoteInput({ script: 'S;', values: ['a', '', 'two\nlines', '$(id)\n'] })).toBe(
    'S;1\na\n0\n2\ntwo\nlines\n1\n$(id)\n',
  )
})
