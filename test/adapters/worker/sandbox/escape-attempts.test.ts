/**
 * Tries every known way out of a sandbox: outside, where it must succeed, and inside, where it must fail, for a worker
 * that is root and for one that is an ordinary user.
 *
 * System calls are tried by a small C program, everything else by shell. Features that this machine lacks (such as
 * kernel modules or a socket family) are still tried inside, but prove nothing.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, copyFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { compileC } from '../../../support/child-process.ts'
import {
  createSandboxSetup,
  landlockProblem,
  ORDINARY_UID,
  run,
  runAs,
  type SandboxSetup,
} from '../../../support/sandbox.ts'
import { describeIf, isRoot, testAsRoot } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const program = compileC('test/support/escape-attempts.c', ['-static', '-O1', '-w'])

/** Some virtual machines have no gate for calls of 32 bits: the instruction faults before a filter could see the call. */
const NO_32_BIT_GATE = 'int_0x80: killed by 11'

/** The result of a call inside, when it is not EPERM. */
const REFUSALS: Readonly<Record<string, string>> = {
  clone3_it: 'ENOSYS',
  openat2_setuid: 'ENOSYS',
  x32_call: 'ENOSYS',
  int_0x80: 'killed by 31',
  kill_host: 'ESRCH',
  read_parent_memory: 'ENOENT',
  setuid_root: 'EINVAL',
  setgid_root: 'EINVAL',
  setresuid_root: 'EINVAL',
  chown_root: 'EINVAL',
  chown_other: 'EINVAL',
  raise_nice: 'EACCES',
  // Landlock is asked before the kernel's own rule.
  ...(landlockProblem === undefined ? { mknod_block: 'EACCES', mknod_char: 'EACCES' } : {}),
  tcp_loopback: 'ECONNREFUSED',
  tcp_any: 'ECONNREFUSED',
  tcp_mapped: 'ECONNREFUSED',
  abstract_socket: 'ECONNREFUSED',
  udp_metadata: 'ENETUNREACH',
  udp_public: 'ENETUNREACH',
  udp_name_server: 'ENETUNREACH',
  ...Object.fromEntries(
    'vsock packet alg tipc bluetooth key can rds xdp smc junk'
      .split(' ')
      .map((family) => [`socket_${family}`, 'EAFNOSUPPORT']),
  ),
}
const CALLS_MIN = process.arch === 'x64' ? 125 : 115
/** Outside, these errors mean that the kernel lacks the feature. */
const NOT_IN_KERNEL = /: (ENOSYS|EAFNOSUPPORT)$/

/** Shell conditions that are true when the attempt succeeds. `$W` is the workspace, `$SECRET` a file of the host. */
const SHELL: Readonly<Record<string, string>> = {
  'a file of the host, below /tmp': 'cat "$SECRET"',
  'the same through the first process': 'cat "/proc/1/root/$SECRET"',
  'the same through a process of the host': 'cat "/proc/$HOST_PID/root/$SECRET"',
  'the same through a link in the workspace': 'ln -sf "$SECRET" $W/link; cat $W/link',
  'a hard link to a file of the host': 'ln /usr/bin/env $W/env-$$ || ln "$SECRET" $W/env-$$',
  'passwords of the host': 'cat /etc/shadow',
  "root's home": 'ls /root',
  'what starts the machine': 'ls /boot',
  'logs of the host': 'ls /var/log',
  'services of the host': 'ls /etc/systemd || ls /etc/init.d',
  'the environment of a process of the host': 'cat /proc/$HOST_PID/environ',
  'a process of the host by name': '[ -d /proc/$HOST_PID ]',
  'the kernel in memory': 'head -c 1 /proc/kcore',
  "the kernel's log": '[ -r /dev/kmsg ] || [ -r /proc/kmsg ]',
  'keys of the host': 'grep -q . /proc/keys',
  'devices of the kernel': 'ls /sys/kernel',
  'control groups': 'ls /sys/fs/cgroup',
  'disks and other devices': 'ls /dev | grep -qE "^(vd|sd|nvme|loop|kvm|fuse|mem|port|net|dri|mapper)"',
  'core_pattern opened for writing': ': >> /proc/sys/kernel/core_pattern',
  'any file of /proc outside processes open for writing':
    'find /proc -path "/proc/[0-9]*" -prune -o -type f -writable -print | grep -q .',
  'its own score when memory gets scarce': 'echo 600 > /proc/self/oom_score_adj',
  'sysrq opened for writing': '[ -w /proc/sysrq-trigger ]',
  'a folder in /usr': 'mkdir /usr/way-out-$$ && rmdir /usr/way-out-$$',
  'a folder in /etc': 'mkdir /etc/way-out-$$ && rmdir /etc/way-out-$$',
  'a folder in /': 'mkdir /way-out-$$ && rmdir /way-out-$$',
  'a folder in /run': 'mkdir /run/way-out-$$ && rmdir /run/way-out-$$',
  'a folder in /dev': 'mkdir /dev/way-out-$$ && rmdir /dev/way-out-$$',
  'a folder in /var': 'mkdir /var/way-out-$$ && rmdir /var/way-out-$$',
  'a program of the host opened for writing': '[ -w /usr/bin/env ]',
  'more than its share of /tmp': 'head -c 80000000 /dev/zero > $BIG/fill',
  'more than its share of shared memory':
    'head -c 80000000 /dev/zero > /dev/shm/fill-$$ && rm /dev/shm/fill-$$',
  'more than one network device': '[ "$(grep -c : /proc/net/dev)" -gt 1 ]',
  'listeners of the host': 'grep -qi ":$PORT_HEX " /proc/net/tcp',
  'sockets of the host by name': 'grep -q "$ABSTRACT" /proc/net/unix',
  'becoming root by su': 'su -c true',
  'a file that gives its owner’s rights': '[ "$($AS_NOBODY $W/owner-id -u)" = 0 ]',
  'a user namespace by unshare': 'unshare --user true',
  'a sandbox in the sandbox': 'bwrap --unshare-user --ro-bind / / true',
  'entering the first process': 'nsenter --target 1 --uts true',
  'entering a process of the host': 'nsenter --target $HOST_PID --uts true',
  'another root': 'chroot / /bin/true',
  'another hostname': 'hostname "$(hostname)"',
  'a device file': 'mknod $W/null-$$ c 1 3',
}

/** Attempts that fail outside too on some kernels, or for root in a container. */
const OPTIONAL_ATTEMPTS = [
  'the same through the first process',
  'the kernel in memory',
  'keys of the host',
  'sysrq opened for writing',
  'entering the first process',
]

const server = createServer((socket) => socket.destroy())
const abstract = spawn(
  'python3',
  [
    '-c',
    'import socket,sys,time\ns=socket.socket(socket.AF_UNIX);s.bind("\\0"+sys.argv[1]);s.listen(9);print(flush=True);time.sleep(300)',
    `switchyard-${process.pid}`,
  ],
  { stdio: ['ignore', 'pipe', 'inherit'] },
)
const secret = join(tempFolder(), 'secret')
writeFileSync(secret, 'of the host', { mode: 0o644 })
chmodSync(join(secret, '..'), 0o755)
let port = 0

beforeAll(async () => {
  await Promise.all([once(server.listen(0, '0.0.0.0'), 'listening'), once(abstract.stdout, 'data')])
  port = (server.address() as AddressInfo).port
})
afterAll(() => {
  server.close()
  abstract.kill()
})

interface AttemptResults {
  readonly calls: readonly string[]
  readonly shell: readonly string[]
}

describe('outside', () => {
  let outside: AttemptResults

  testAsRoot('every way that this machine has leads somewhere, and there are more than a hundred', () => {
    const fixture = createSandboxSetup()
    plantPrograms(fixture)
    const work = join(fixture.root, 'work')
    const [command = '', ...args] = [
      '/bin/sh',
      '-c',
      script(work, tempFolder(), 'setpriv --reuid=65534 --clear-groups'),
    ]
    outside = parseResults(execFileSync(command, args, { stdio: ['ignore', 'pipe', 'ignore'] }).toString())
    const calls = outside.calls.filter((line) => !NOT_IN_KERNEL.test(line))
    expect(calls.filter((line) => /: (EPERM|EACCES)$/.test(line))).toEqual([])
    const led = outside.shell.filter((line) => line.endsWith(': done'))
    const closed = outside.shell.filter((line) => !led.includes(line)).map((line) => line.replace(/: .*/, ''))
    expect(closed.filter((name) => !OPTIONAL_ATTEMPTS.includes(name))).toEqual([])
    expect(calls.length + led.length).toBeGreaterThan(140)
  })
})

describeIf(isRoot, 'needs root')('inside, launched by root', () => insideSuite('root'))
describe('inside, launched by an ordinary user', () => insideSuite('an ordinary user'))

function insideSuite(who: 'root' | 'an ordinary user'): void {
  let inside: AttemptResults
  let fixture: SandboxSetup

  beforeAll(async () => {
    fixture = createSandboxSetup(who === 'root' ? undefined : ORDINARY_UID)
    plantPrograms(fixture)
    const order = fixture.order(['/bin/sh', '-c', script('/work', '/tmp', '')])
    const [ran] = who === 'root' ? [await run(order)] : await runAs(ORDINARY_UID, [order])
    expect(ran).toMatchObject({ end: { code: 0 } })
    inside = parseResults(ran?.out ?? '')
  })

  test('every system call fails', () => {
    const wrong = inside.calls.filter((line) => {
      const [name = '', outcome] = line.split(': ')
      return outcome !== (REFUSALS[name] ?? 'EPERM') && line !== NO_32_BIT_GATE
    })
    expect(wrong).toEqual([])
    expect(inside.calls.length).toBeGreaterThanOrEqual(CALLS_MIN)
  })

  test('every shell attempt fails', () => {
    expect(inside.shell).toEqual(Object.keys(SHELL).map((name) => `${name}: refused`))
  })
}

/** Copies two programs into the workspace: the one that tries the calls, and a root-owned one that prints its user. */
function plantPrograms({ root, sandboxUser }: SandboxSetup): void {
  copyFileSync(program, join(root, 'work', 'ways-out'))
  chmodSync(join(root, 'work', 'ways-out'), 0o755)
  copyFileSync('/usr/bin/id', join(root, 'work', 'owner-id'))
  if (isRoot) chownSync(join(root, 'work', 'owner-id'), 0, 0)
  chmodSync(join(root, 'work', 'owner-id'), 0o4755)
  chmodSync(join(root, 'work'), isRoot && sandboxUser.uid !== 0 ? 0o755 : 0o700)
}

function script(work: string, big: string, asNobody: string): string {
  const variables = {
    W: work,
    BIG: big,
    SECRET: secret,
    HOST_PID: String(process.pid),
    PORT_HEX: port.toString(16).padStart(4, '0'),
    ABSTRACT: `switchyard-${process.pid}`,
    AS_NOBODY: asNobody,
  }
  const set = Object.entries(variables).map(([name, value]) => `${name}='${value}'`)
  const tries = Object.entries(SHELL).map(
    ([name, condition]) =>
      `if ( ${condition} ) </dev/null >/dev/null 2>&1; then echo "${name}: done"; else echo "${name}: refused"; fi`,
  )
  return [...set, `$W/ways-out $W $HOST_PID ${port} $ABSTRACT`, 'echo ---', ...tries].join('\n')
}

function parseResults(output: string): AttemptResults {
  const [calls = '', shell = ''] = output.split('---\n')
  const lines = (text: string): string[] => text.split('\n').filter(Boolean)
  return { calls: lines(calls), shell: lines(shell) }
}
