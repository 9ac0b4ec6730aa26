/**
 * Runs a command in a container under runc, with the security context of a pod: an ordinary user without capabilities,
 * a read-only root, and on request a user namespace of its own, an uncovered /proc and a runtime's system call filter.
 *
 * The container shares the network of this machine, so that it reaches hosts of the test.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { tempFolder } from './temp-folder.ts'
import { closeAfterTest } from './test-resources.ts'

export interface ContainerMount {
  readonly from: string
  readonly to: string
  readonly writable?: boolean
}

export interface ContainerPlan {
  /** The root file system; absent: a root of this machine's own programs. */
  readonly root?: string
  readonly mounts?: readonly ContainerMount[]
  readonly command: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly uid?: number
  /** `masked` is the default of every container runtime. */
  readonly proc: 'masked' | 'unmasked'
  /** Whether the container has a user namespace of its own: `hostUsers: false`. */
  readonly ownUsers: boolean
  /** The system call filter of a runtime, as it is for these capabilities. */
  readonly filter: 'none' | 'containerd' | 'CRI-O'
  /** Capabilities that may be gained; the process itself has none. */
  readonly capabilities: readonly 'CAP_SYS_ADMIN'[]
}

/** What a pod has whose manifest `switchyard deploy kubernetes --print` printed. */
export const POD = {
  proc: 'unmasked',
  ownUsers: true,
  filter: 'containerd',
  capabilities: ['CAP_SYS_ADMIN'],
} as const satisfies Partial<ContainerPlan>

export const USER = 1000
/** The first user of this machine that stands for one of a container. */
const FIRST_USER = 100_000
const USERS = 65_536
/** The user of this machine that a container's ordinary user is. */
export const outsideUser = ({ ownUsers }: Pick<ContainerPlan, 'ownUsers'>, uid = USER): number =>
  ownUsers ? FIRST_USER + uid : uid

export interface RunningContainer {
  readonly out: () => string
  readonly err: () => string
  readonly exit: Promise<number | NodeJS.Signals>
  /** Sends a signal to the first process of the container. */
  signal(name: 'SIGTERM' | 'SIGKILL'): void
  /** Runs a further command in it, and returns what it printed. */
  exec(...command: readonly string[]): string
  /** The same for a command that may take long; its exit code. */
  run(...command: readonly string[]): Promise<number | null>
}

/** Whether a container with the context of a pod runs here at all. */
export function canRunContainers(): boolean {
  if (process.platform !== 'linux' || process.geteuid?.() !== 0) return false
  const { run } = prepareContainer({ ...POD, command: ['true'] })
  return spawnSync(...run, { stdio: 'ignore' }).status === 0
}

export function startContainer(plan: ContainerPlan): RunningContainer {
  const { id, run, runc } = prepareContainer(plan)
  const child = spawn(...run, { stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err] = [collectText(child.stdout), collectText(child.stderr)]
  const exit = new Promise<number | NodeJS.Signals>((resolve) => {
    child.on('close', (code, signal) => resolve(code ?? signal ?? -1))
  })
  closeAfterTest(async () => {
    spawnSync(...runc('delete', '--force', id), { stdio: 'ignore' })
    await exit
  })
  return {
    out,
    err,
    exit,
    signal: (name) => void spawnSync(...runc('kill', id, name), { stdio: 'ignore' }),
    run: (...command) =>
      new Promise((resolve) => {
        spawn(...runc('exec', id, ...command), { stdio: 'ignore' }).on('close', resolve)
      }),
    exec: (...command) =>
      execFileSync(...runc('exec', id, ...command), {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
  }
}

let count = 0

function prepareContainer(plan: ContainerPlan) {
  count += 1
  const id = `switchyard-test-${process.pid}-${count}`
  const [bundle, state] = [tempFolder(), tempFolder()]
  const root = plan.root ?? makeRoot(bundle)
  chmodSync(bundle, 0o755)
  writeFileSync(join(bundle, 'config.json'), JSON.stringify(describeContainer(plan, root)))
  const runc = (...words: readonly string[]) => inOwnMounts(['runc', '--root', state, ...words])
  return { id, runc, run: runc('run', '--bundle', bundle, id) }
}

/** runc 1.1 stumbles over a unified control group beside the old ones, so it does not get to see that mount. */
function inOwnMounts(command: readonly string[]): [string, string[]] {
  const script = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
  return ['unshare', ['--mount', 'sh', '-c', script, 'sh', ...command]]
}

function collectText(stream: NonNullable<ChildProcess['stdout']>): () => string {
  let text = ''
  stream.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  return () => text
}

// ---- the root ------------------------------------------------------------------------------------------------------

/** Folders for mounts, and the links that every Debian has. */
function makeRoot(bundle: string): string {
  const root = join(bundle, 'rootfs')
  const folders = [
    'proc',
    'dev',
    'tmp',
    'usr',
    'etc/switchyard/join',
    'run',
    'opt/switchyard',
    'var/lib/switchyard-worker',
  ]
  for (const folder of [...folders, dirname(process.execPath).slice(1)])
    mkdirSync(join(root, folder), { recursive: true })
  // Only root of this machine may create mount points here.
  for (const { to } of programMounts())
    if (statSync(to).isDirectory()) mkdirSync(join(root, to), { recursive: true })
    else writeFileSync(join(root, to), '')
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(root, name))
  return root
}

/** What programs of this machine read below /etc; a container has its own files besides. */
const SYSTEM_FILES = [
  'passwd',
  'group',
  'hosts',
  'resolv.conf',
  'nsswitch.conf',
  'ld.so.cache',
  'ssl',
  'alternatives',
]

/** This machine's programs, and Node where it lies elsewhere. */
function programMounts(): ContainerMount[] {
  const node = dirname(process.execPath)
  const files = SYSTEM_FILES.map((name) => `/etc/${name}`).filter((path) => existsSync(path))
  const own = ['/usr', ...files, ...(node.startsWith('/usr/') ? [] : [node])]
  return own.map((path) => ({ from: path, to: path }))
}

/** A Secret as the kubelet mounts it for a pod with a group: links, of root, readable for the group. */
export function secretVolumeFor(plan: Pick<ContainerPlan, 'ownUsers'>, name: string, text: string): string {
  const folder = tempFolder()
  const version = join(folder, '..2026_01_01')
  mkdirSync(version)
  const file = join(version, name)
  writeFileSync(file, text)
  symlinkSync('..2026_01_01', join(folder, '..data'))
  symlinkSync(`..data/${name}`, join(folder, name))
  for (const path of [folder, version, file]) chownSync(path, outsideUser(plan, 0), outsideUser(plan))
  chmodSync(file, 0o440)
  for (const path of [folder, version]) chmodSync(path, 0o750)
  return folder
}

/** A new volume as the kubelet mounts it: of root, writable for the pod's group, and on a disk of its own. */
export function volumeFor(plan: Pick<ContainerPlan, 'ownUsers'>): string {
  const folder = tempFolder()
  mkdirSync(join(folder, 'lost+found'), { mode: 0o700 })
  chownSync(folder, outsideUser(plan, 0), outsideUser(plan))
  chmodSync(folder, 0o2777)
  return folder
}

// ---- the description -----------------------------------------------------------------------------------------------

function describeContainer(plan: ContainerPlan, root: string): object {
  const { command, environment = {}, uid = USER, proc, ownUsers, capabilities, mounts = [] } = plan
  const mapping = [{ containerID: 0, hostID: FIRST_USER, size: USERS }]
  const namespaces = ['pid', 'ipc', 'uts', 'mount', ...(ownUsers ? ['user'] : [])].map((type) => ({ type }))
  return {
    ociVersion: '1.0.2',
    hostname: 'worker-pod',
    root: { path: root, readonly: true },
    process: {
      terminal: false,
      user: { uid, gid: uid },
      cwd: '/',
      args: command,
      env: Object.entries({ PATH: '/usr/local/bin:/usr/bin:/bin', ...environment }).map(
        ([name, value]) => `${name}=${value}`,
      ),
      noNewPrivileges: false,
      capabilities: {
        bounding: capabilities,
        ...Object.fromEntries(['effective', 'inheritable', 'permitted', 'ambient'].map((set) => [set, []])),
      },
    },
    mounts: [
      ...KERNEL_MOUNTS,
      ...[...(plan.root === undefined ? programMounts() : []), ...mounts].map(describeMount),
    ],
    linux: {
      namespaces,
      ...(ownUsers ? { uidMappings: mapping, gidMappings: mapping } : {}),
      ...(proc === 'masked' ? { maskedPaths: MASKED_PATHS, readonlyPaths: READ_ONLY_PATHS } : {}),
      ...describeFilter(plan),
    },
  }
}

const KERNEL_MOUNTS = [
  { destination: '/proc', type: 'proc', source: 'proc' },
  { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755', 'size=64k'] },
  {
    destination: '/dev/shm',
    type: 'tmpfs',
    source: 'shm',
    options: ['nosuid', 'noexec', 'nodev', 'mode=1777'],
  },
  { destination: '/tmp', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'nodev', 'mode=1777'] },
]

const describeMount = ({ from, to, writable = false }: ContainerMount) => ({
  destination: to,
  type: 'bind',
  source: from,
  options: ['rbind', writable ? 'rw' : 'ro', 'nosuid', 'nodev'],
})

/** The lists of containerd and CRI-O. */
const MASKED_PATHS = [
  '/proc/acpi',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/sys/firmware',
]
const READ_ONLY_PATHS = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

// ---- the system call filter ----------------------------------------------------------------------------------------

/** Refused by both runtimes without SYS_ADMIN. */
const ADMIN_CALLS = ['sethostname', 'setdomainname', 'bpf', 'perf_event_open', 'quotactl', 'syslog']
/** containerd also refuses what makes namespaces and mounts; CRI-O allows those. */
const NAMESPACE_CALLS = ['mount', 'umount2', 'unshare', 'setns', 'pivot_root', 'fsopen', 'move_mount']
const ALWAYS_REFUSED = ['kexec_load', 'init_module', 'finit_module', 'reboot', 'settimeofday', 'swapon']
const CLONE_NEWUSER = 0x1000_0000
const [EPERM, ENOSYS] = [1, 38]

function describeFilter({ filter, capabilities }: ContainerPlan): object {
  if (filter === 'none') return {}
  const isAdmin = capabilities.includes('CAP_SYS_ADMIN')
  const refuse = (names: readonly string[], errnoRet: number, more: object = {}) => ({
    names,
    action: 'SCMP_ACT_ERRNO',
    errnoRet,
    ...more,
  })
  const newUsers = { index: 0, value: CLONE_NEWUSER, valueTwo: CLONE_NEWUSER, op: 'SCMP_CMP_MASKED_EQ' }
  const syscalls = [
    refuse(ALWAYS_REFUSED, EPERM),
    ...(isAdmin ? [] : [refuse(ADMIN_CALLS, EPERM)]),
    ...(isAdmin || filter === 'CRI-O'
      ? []
      : [
          refuse(NAMESPACE_CALLS, EPERM),
          refuse(['clone'], EPERM, { args: [newUsers] }),
          refuse(['clone3'], ENOSYS),
        ]),
  ]
  return {
    seccomp: {
      defaultAction: 'SCMP_ACT_ALLOW',
      architectures: ['SCMP_ARCH_X86_64', 'SCMP_ARCH_AARCH64'],
      syscalls,
    },
  }
}
