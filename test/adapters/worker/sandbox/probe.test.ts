/** Tests of the probe with the real bubblewrap, with failing ones, and on simulated machines. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { buildSandboxArguments } from '../../../../worker/sandbox/bwrap/arguments.ts'
import { probeSandbox } from '../../../../worker/sandbox/bwrap/probe.ts'
import { findLandlockProblem, REQUIRED_PROGRAMS } from '../../../../worker/sandbox/bwrap/wrapper-commands.ts'
import {
  type CommandOutcome,
  escapeTestCommand,
  findEscapes,
  type LocalMachine,
  NAMESPACES,
  type ProbeCommand,
  thisMachine,
} from '../../../../worker/sandbox/local-machine.ts'

const real = thisMachine()

describe('with the real bubblewrap', () => {
  test('this machine can create a sandbox', async () => {
    const landlockProblem = await findLandlockProblem(real)
    expect(await probeSandbox(real)).toEqual({
      ok: true,
      bwrap: '/usr/bin/bwrap',
      keepsHostName: false,
      ...(landlockProblem === undefined ? {} : { landlockProblem }),
    })
  })

  test('the command runs as an ordinary user, without capabilities, and cannot write to the root', async () => {
    const commands =
      'id -u; grep CapBnd /proc/self/status; touch /x /etc/x /run/x /proc/sys/kernel/core_pattern 2>&1 | grep -c touch; echo kept > /work/y && cat /work/y; ls /'
    const { commandLine: visible, inputs: fed } = buildSandboxArguments({})
    const as = real.euid === 0 ? { as: { uid: 65_534, gid: 65_534 } } : {}
    const ended = await real.run({
      program: '/usr/bin/bwrap',
      args: [...visible, '/bin/sh', '-c', commands],
      inputs: fed,
      timeoutMs: 30_000,
      ...as,
    })
    expect(ended).toMatchObject({ is: 'exited', stderr: '' })
    const output = ended.is === 'exited' ? ended.stdout.split('\n') : []
    expect(output.slice(0, 4)).toEqual(['1000', 'CapBnd:\t0000000000000000', '4', 'kept'])
    expect(output.slice(4).filter(Boolean)).toEqual([
      'bin',
      'dev',
      'etc',
      'home',
      'lib',
      'lib64',
      'proc',
      'run',
      'sbin',
      'tmp',
      'usr',
      'work',
    ])
  })
})

test('the attempts of the probe succeed where there is no sandbox', async () => {
  const host = await real.openEscapeTarget()
  const [program = '', ...args] = escapeTestCommand(host)
  const ended = await real.run({ program, args, timeoutMs: 30_000 })
  host.close()
  const output = ended.is === 'exited' ? ended.stdout.split('\n') : []
  const done = output.filter((line) => line.startsWith('done ')).map((line) => line.slice(5))
  // Only root can write core_pattern.
  const possible = ['mount', 'core_pattern', 'kill', 'loopback', 'home', 'device']
  expect(done).toEqual(real.euid === 0 ? possible : possible.filter((what) => what !== 'core_pattern'))
  expect(ended.is === 'exited' && findEscapes(ended.stdout, host)).toContain(
    "the mnt namespace is the host's",
  )
})

describe('with a bubblewrap that does not work', () => {
  let folder = ''
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'switchyard-bwrap-'))
    await chmod(folder, 0o755)
  })
  afterAll(() => rm(folder, { recursive: true }))

  /** Prints the real output for `--help`, and runs `script` otherwise. */
  async function fake(name: string, script: string, help = '/usr/bin/bwrap --help'): Promise<string[]> {
    const path = join(folder, name)
    await writeFile(path, `#!/bin/sh\nif [ "$1" = --help ]; then ${help}; exit 0; fi\n${script}\n`)
    await chmod(path, 0o755)
    return [join(folder, 'missing'), path]
  }

  test('its error message is reported in one line', async () => {
    const paths = await fake('refuses', "printf 'bwrap: setting up\\nuid map\\033[31m\\n' >&2; exit 1")
    expect(await probeSandbox(real, paths)).toMatchObject({
      ok: false,
      reason: 'bwrap-unavailable',
      detail: `${paths[1]} cannot make a sandbox: bwrap: setting up uid map`,
    })
  })

  test('an empty error message is replaced by the exit code', async () => {
    const paths = await fake('silent', 'exit 3')
    expect(await probeSandbox(real, paths)).toMatchObject({
      ok: false,
      detail: expect.stringMatching(/: exit code 3$/),
    })
  })

  test('an outdated version is distinguished from a failure, and its missing options are named', async () => {
    const paths = await fake('old', 'exit 1', '/usr/bin/bwrap --help | grep -v -e --disable-userns -e --size')
    expect(await probeSandbox(real, paths)).toMatchObject({
      ok: false,
      detail: expect.stringContaining('does not know --disable-userns, --size; bubblewrap 0.8.0'),
    })
  })

  test('a version that hangs is killed after five seconds, whatever it left running', async () => {
    const paths = await fake('hangs', 'sleep 50 & sleep 50')
    const before = performance.now()
    expect(await probeSandbox(real, paths)).toMatchObject({
      ok: false,
      detail: expect.stringContaining('it did not end within 5 s'),
    })
    expect(performance.now() - before).toBeLessThan(45_000)
  })

  test('a background child of bubblewrap is not awaited', async () => {
    const paths = await fake('leaves', 'sleep 50 & exit 4')
    const before = performance.now()
    expect(await probeSandbox(real, paths)).toMatchObject({
      ok: false,
      detail: expect.stringContaining('exit code 4'),
    })
    expect(performance.now() - before).toBeLessThan(45_000)
  })

  test('a file that is not a program of this machine is reported', async () => {
    const path = join(folder, 'broken')
    await writeFile(path, '\x7fELF nothing')
    await chmod(path, 0o755)
    expect(await probeSandbox(real, [path])).toMatchObject({ ok: false, reason: 'bwrap-unavailable' })
  })

  test('a missing bubblewrap is reported with the command to install it', async () => {
    expect(await probeSandbox(real, [join(folder, 'missing')])).toMatchObject({
      ok: false,
      reason: 'bwrap-unavailable',
      detail: expect.stringMatching(/sudo apt-get install -y bubblewrap$/),
    })
  })
})

describe('on other machines', () => {
  const help: CommandOutcome = { is: 'exited', code: 0, stdout: sandboxHelp(), stderr: '' }

  function machine(
    trial: CommandOutcome,
    files: Readonly<Record<string, string>> = {},
    euid = 1000,
    landlockVersion?: string,
  ): LocalMachine & { ran: ProbeCommand[] } {
    const programs = ['/usr/bin/bwrap', ...(landlockVersion === undefined ? [] : ['/usr/bin/perl'])]
    const ran: ProbeCommand[] = []
    return {
      ran,
      platform: 'linux',
      arch: 'x64',
      euid,
      egid: euid,
      isProgram: async (path) => [...programs, ...REQUIRED_PROGRAMS].includes(path),
      openEscapeTarget: async () => outside,
      read: async (path) => files[path],
      run: async (command) => {
        ran.push(command)
        if (command.program === '/usr/bin/perl') return { ...help, stdout: landlockVersion ?? '' }
        return command.args[0] === '--help' ? help : trial
      },
    }
  }

  const outside = {
    pid: 4711,
    port: 1,
    home: '/home/me',
    inode: '1:2',
    namespaces: NAMESPACES.map((kind) => `${kind}:[1]`),
    close: () => {},
  }
  const held = { is: 'exited', code: 0, stdout: isolatedOutput(), stderr: '' } as const

  const refused: CommandOutcome = {
    is: 'exited',
    code: 1,
    stdout: '',
    stderr: 'bwrap: setting up uid map: Permission denied\n',
  }

  test('outside Linux nothing is tried', async () => {
    const mac = { ...machine(refused), platform: 'darwin' }
    expect(await probeSandbox(mac)).toEqual({
      ok: false,
      reason: 'unsupported-platform',
      detail: expect.stringMatching(/Linux.* darwin$/),
    })
    expect(mac.ran).toEqual([])
  })

  test("Ubuntu's restriction is recognised, and the fix named", async () => {
    const ubuntu = machine(refused, { '/proc/sys/kernel/apparmor_restrict_unprivileged_userns': '1\n' })
    const answer = await probeSandbox(ubuntu)
    expect(answer).toMatchObject({ ok: false, reason: 'bwrap-unavailable' })
    expect(answer).toMatchObject({
      detail: expect.stringContaining('profile bwrap /usr/bin/bwrap flags=(unconfined)'),
    })
    expect(answer).toMatchObject({
      detail: expect.stringContaining('sudo apparmor_parser -r /etc/apparmor.d/bwrap'),
    })
  })

  test('disabled user namespaces are recognised too', async () => {
    const debian = machine(refused, { '/proc/sys/kernel/unprivileged_userns_clone': '0' })
    expect(await probeSandbox(debian)).toMatchObject({
      detail: expect.stringMatching(/sudo sysctl -w kernel\.unprivileged_userns_clone=1$/),
    })
    const none = machine(refused, { '/proc/sys/user/max_user_namespaces': '0' })
    expect(await probeSandbox(none)).toMatchObject({
      detail: expect.stringContaining('user.max_user_namespaces'),
    })
  })

  test('other errors get no fix', async () => {
    const odd = machine(
      { ...refused, stderr: 'bwrap: out of cheese' },
      { '/proc/sys/kernel/apparmor_restrict_unprivileged_userns': '1' },
    )
    expect(await probeSandbox(odd)).toMatchObject({
      detail: '/usr/bin/bwrap cannot make a sandbox: bwrap: out of cheese',
    })
  })

  test('a host name that may not be set is left out, and nothing else', async () => {
    const noName: CommandOutcome = {
      ...refused,
      stderr: "bwrap: Can't set hostname to sandbox: Operation not permitted\n",
    }
    const optionsOf = ({ inputs = [] }: ProbeCommand) => String(inputs[0]).split('\0')
    const podman = machine(held)
    const run = async (command: ProbeCommand) => {
      const outcome = await podman.run(command)
      return outcome === held && optionsOf(command).includes('--hostname') ? noName : outcome
    }
    expect(await probeSandbox({ ...podman, run })).toEqual({
      ok: true,
      bwrap: '/usr/bin/bwrap',
      keepsHostName: true,
      landlockProblem: '/usr/bin/perl is not installed',
    })
    const [first = [], second = []] = podman.ran.filter(({ args }) => args[0] !== '--help').map(optionsOf)
    expect(first.filter((word) => !second.includes(word))).toEqual(['--hostname', 'sandbox'])
    expect(second.filter((word) => !first.includes(word))).toEqual([])
  })

  test('an architecture without a system call table has no sandbox', async () => {
    const odd = { ...machine(held), arch: 'riscv64' }
    expect(await probeSandbox(odd)).toEqual({
      ok: false,
      reason: 'unsupported-platform',
      detail: expect.stringMatching(/x64, arm64.* riscv64$/),
    })
    expect(odd.ran).toEqual([])
  })

  test('other missing programs are named with their package', async () => {
    const bare = { ...machine(held), isProgram: async (path: string) => path === '/usr/bin/bwrap' }
    expect(await probeSandbox(bare)).toMatchObject({
      detail: expect.stringMatching(/setpriv.*prlimit.*util-linux$/),
    })
  })

  test.each([
    ['refused mount', 'done mount'],
    ['refused core_pattern', 'done core_pattern'],
    ['refused kill', 'done kill'],
    ['refused loopback', 'done loopback'],
    ['refused home', 'done home'],
    ['refused home', ''],
    ['namespace net:[2]', 'namespace net:[1]'],
    ['namespace user:[2]', 'namespace '],
    ['Seccomp:\t2', 'Seccomp:\t0'],
    ['NoNewPrivs:\t1', 'NoNewPrivs:\t0'],
    ['CapBnd:\t0000000000000000', 'CapBnd:\t00000000a80425fb'],
    ['CapEff:\t0000000000000000', 'CapEff:\t0000000000200000'],
  ])(
    'a sandbox that reports %j as %j does not isolate, and the detail names this gap',
    async (right, wrong) => {
      const output = isolatedOutput().replace(right, wrong)
      const gap = findEscapes(output, outside)
      expect(gap).toMatch(/\S/)
      expect(await probeSandbox(machine({ ...held, stdout: output }))).toMatchObject({
        ok: false,
        reason: 'bwrap-unavailable',
        detail: `/usr/bin/bwrap makes a sandbox, but ${gap}`,
      })
    },
  )

  test.each([
    ['-1', 'not offer'],
    ['', 'not offer'],
    ['1', 'older'],
  ])('where Landlock answers %j, sandboxes go without it', async (version, why) => {
    const without = machine(held, {}, 1000, version)
    expect(await probeSandbox(without)).toMatchObject({
      ok: true,
      landlockProblem: expect.stringContaining(why),
    })
    expect(without.ran.at(-1)?.args).not.toContain('/usr/bin/perl')
  })

  test.each(['2', '7', '99'])(
    'where Landlock has version %s, the test of escapes runs under it',
    async (version) => {
      const under = machine({ ...held, stdout: `refused device\n${held.stdout}` }, {}, 1000, version)
      expect(await probeSandbox(under)).toEqual({ ok: true, bwrap: '/usr/bin/bwrap', keepsHostName: false })
      expect(under.ran.at(-1)?.args).toContain('/usr/bin/perl')
    },
  )

  test('a machine with Landlock whose sandbox makes a device file has no sandbox', async () => {
    const open = machine({ ...held, stdout: `done device\n${held.stdout}` }, {}, 1000, '7')
    expect(await probeSandbox(open)).toMatchObject({
      ok: false,
      detail: expect.stringContaining('making a device file was possible'),
    })
    expect(await probeSandbox({ ...open, isProgram: machine(held).isProgram })).toMatchObject({ ok: true })
  })

  test('an attempt without its tool does not count', async () => {
    const output = `missing unshare\n${isolatedOutput()}`
    expect(await probeSandbox(machine({ ...held, stdout: output }))).toMatchObject({
      detail: expect.stringContaining('cannot be tested without unshare'),
    })
  })

  test.each([
    [0, { uid: 65_534, gid: 65_534 }],
    [1000, undefined],
  ])('started by user %d, the sandbox is run as %j', async (euid, as) => {
    const any = machine(held, {}, euid)
    expect(await probeSandbox(any)).toMatchObject({ ok: true, bwrap: '/usr/bin/bwrap', keepsHostName: false })
    expect(any.ran.at(-1)?.as).toEqual(as)
  })
})

/** The test output in a sandbox that isolates. */
function isolatedOutput(): string {
  const attempts = ['mount', 'core_pattern', 'kill', 'loopback', 'home'].map((what) => `refused ${what}`)
  const namespaces = NAMESPACES.map((kind) => `namespace ${kind}:[2]`)
  const status = ['CapEff:\t0000000000000000', 'CapBnd:\t0000000000000000', 'NoNewPrivs:\t1', 'Seccomp:\t2']
  return [...attempts, ...namespaces, ...status].join('\n')
}

function sandboxHelp(): string {
  const words = String(
    buildSandboxArguments({ homeFolder: '/', mounts: [{ from: '/', to: '/' }], reportsStatus: true })
      .inputs[0],
  ).split('\0')
  return ['--args', ...words.filter((word) => word.startsWith('--'))].join('\n')
}
