/**
 * Builds the argument list of bubblewrap. The list defines the whole sandbox: bubblewrap isolates nothing by default.
 *
 * The root file system starts empty and gets only what the list names. Every namespace is requested by name, because
 * `--unshare-all` ignores failures for some, and no weaker list exists as a fallback. The list is passed through a
 * descriptor, so that /proc/PID/cmdline shows none of it. Isolation options come before mounts: a truncated list would
 * expose less, never more.
 */
import type { SandboxFile, SandboxMount } from '../driver.ts'
import { EGRESS_SOCKET, HOME, WORK } from '../inside-paths.ts'
import { buildSeccompFilter } from './seccomp/filter.ts'

/** An option of bubblewrap with its values. */
export type BwrapOption = readonly [name: `--${string}`, ...values: string[]]

export interface SandboxPlan {
  /** Host folder mounted as /work; without it, /work is an empty temporary folder. */
  readonly workFolder?: string
  /** Host folder mounted as the home directory; without it, home is an empty temporary folder. */
  readonly homeFolder?: string
  readonly mounts?: readonly SandboxMount[]
  /** Host path of the egress proxy's socket; without it the sandbox has no network. */
  readonly egressSocket?: string
  /** Host paths mounted read-only under the same name. */
  readonly readOnlyPaths?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly files?: readonly SandboxFile[]
  /** Keeps the machine's host name; for a container whose runtime refuses to set another one. */
  readonly keepsHostName?: boolean
  /** Keeps the controlling terminal, for a sandbox that a person uses interactively. */
  readonly terminal?: boolean
  /** Makes bubblewrap report its status on the descriptor after the last input. */
  readonly reportsStatus?: boolean
}

/** Descriptors of the argument list and of the seccomp filter; one descriptor per file follows. */
export const ARGUMENTS_FD = 3
const FILTER_FD = 4
const FIRST_FILE_FD = 5

const MIB = 1024 * 1024
const SYSTEM_PATHS = [
  '/etc/ssl',
  '/etc/ca-certificates',
  '/etc/alternatives',
  '/etc/ld.so.cache',
  '/etc/ld.so.conf',
  '/etc/ld.so.conf.d',
  '/etc/localtime',
]

const DEFAULT_FILES: readonly SandboxFile[] = [
  { path: '/etc/passwd', mode: '0444', text: `agent:x:1000:1000::${HOME}:/bin/sh\n` },
  { path: '/etc/group', mode: '0444', text: 'agent:x:1000:\n' },
  { path: '/etc/hosts', mode: '0444', text: '127.0.0.1 localhost\n::1 localhost\n' },
  { path: '/etc/nsswitch.conf', mode: '0444', text: 'passwd: files\ngroup: files\nhosts: files\n' },
  { path: '/etc/resolv.conf', mode: '0444', text: '' },
]

const DEFAULT_ENVIRONMENT = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME,
  USER: 'agent',
  LANG: 'C.UTF-8',
  TERM: 'xterm-256color',
  TMPDIR: '/tmp',
}

export interface SandboxArguments {
  /** bubblewrap's own command line, up to the command. */
  readonly commandLine: readonly string[]
  /** Contents to write to descriptors 3, 4, 5 …, in this order; close each after its content. */
  readonly inputs: readonly (string | Uint8Array)[]
  /** Descriptor of bubblewrap's status, when the plan sets `reportsStatus`. */
  readonly statusFd?: number
}

/** Throws on an architecture without a seccomp filter; the probe has ruled those out before. */
export function buildSandboxArguments(plan: SandboxPlan, arch: string = process.arch): SandboxArguments {
  const filter = buildSeccompFilter(arch)
  if (filter === undefined) throw new Error(`no system call filter for ${arch}: there is no sandbox without`)
  return {
    commandLine: ['--args', String(ARGUMENTS_FD), '--'],
    inputs: [encodeOptions(buildSandboxOptions(plan)), filter, ...filesOf(plan).map(({ text }) => text)],
    ...(plan.reportsStatus === true ? { statusFd: statusFd(plan) } : {}),
  }
}

/** Lists the option names, to compare them with those that the installed bubblewrap knows. */
export function listOptionNames(options: readonly BwrapOption[]): string[] {
  return [...new Set(['--args', ...options.map(([name]) => name)])]
}

export function buildSandboxOptions(plan: SandboxPlan): BwrapOption[] {
  return [
    ...isolationOptions(plan),
    ['--seccomp', String(FILTER_FD)],
    ...(plan.reportsStatus === true ? [['--json-status-fd', String(statusFd(plan))] as const] : []),
    ...identityOptions(plan),
    ...systemOptions(plan.readOnlyPaths ?? []),
    ...kernelFolderOptions,
    folderOption(HOME, plan.homeFolder),
    folderOption(WORK, plan.workFolder),
    ...(plan.mounts ?? []).map(mountOption),
    ...(plan.egressSocket === undefined ? [] : [['--ro-bind', plan.egressSocket, EGRESS_SOCKET] as const]),
    ...filesOf(plan).flatMap(fileOptions),
    ...sealingOptions,
  ]
}

// ---- the parts, in the order in which they take effect -----------------------------------------------------------

function isolationOptions({ terminal = false }: SandboxPlan): BwrapOption[] {
  return [
    ['--unshare-user'],
    ['--unshare-ipc'],
    ['--unshare-pid'],
    ['--unshare-net'],
    ['--unshare-uts'],
    ['--unshare-cgroup'],
    ['--disable-userns'],
    ['--die-with-parent'],
    ['--cap-drop', 'ALL'],
    ...(terminal ? [] : [['--new-session'] as const]),
  ]
}

function identityOptions({ environment, keepsHostName = false }: SandboxPlan): BwrapOption[] {
  const variables = Object.entries({ ...DEFAULT_ENVIRONMENT, ...environment })
  return [
    ['--uid', '1000'],
    ['--gid', '1000'],
    ...(keepsHostName ? [] : [['--hostname', 'sandbox'] as const]),
    ['--clearenv'],
    ...variables.map(([name, value]): BwrapOption => ['--setenv', name, value]),
  ]
}

function systemOptions(readOnlyPaths: readonly string[]): BwrapOption[] {
  return [
    ['--ro-bind', '/usr', '/usr'],
    ['--symlink', 'usr/bin', '/bin'],
    ['--symlink', 'usr/sbin', '/sbin'],
    ['--symlink', 'usr/lib', '/lib'],
    ['--symlink', 'usr/lib64', '/lib64'],
    ['--perms', '0755'],
    ['--dir', '/etc'],
    ...SYSTEM_PATHS.map((path): BwrapOption => ['--ro-bind-try', path, path]),
    ...readOnlyPaths.map((path): BwrapOption => ['--ro-bind', path, path]),
  ]
}

const kernelFolderOptions: readonly BwrapOption[] = [
  ['--proc', '/proc'],
  ['--dev', '/dev'],
  ['--size', String(64 * MIB)],
  ['--tmpfs', '/tmp'],
  ['--size', String(4 * MIB)],
  ['--perms', '0700'],
  ['--tmpfs', '/run'],
  ['--size', String(64 * MIB)],
  ['--tmpfs', '/dev/shm'],
]

function folderOption(inside: string, host: string | undefined): BwrapOption {
  return host === undefined ? ['--tmpfs', inside] : ['--bind', host, inside]
}

function mountOption({ from, to, writable = false }: SandboxMount): BwrapOption {
  return [writable ? '--bind' : '--ro-bind', from, to]
}

function statusFd(plan: SandboxPlan): number {
  return FIRST_FILE_FD + filesOf(plan).length
}

function filesOf({ files = [] }: SandboxPlan): readonly SandboxFile[] {
  return [...DEFAULT_FILES, ...files]
}

function fileOptions({ path, mode }: SandboxFile, index: number): BwrapOption[] {
  return [
    ['--perms', mode],
    ['--ro-bind-data', String(FIRST_FILE_FD + index), path],
  ]
}

/** These come last, and in this order: a read-only root would accept no further mount points. */
const sealingOptions: readonly BwrapOption[] = [
  ['--remount-ro', '/proc'],
  ['--remount-ro', '/dev'],
  ['--remount-ro', '/run'],
  ['--remount-ro', '/'],
  ['--chdir', WORK],
]

/** Terminates each word with a NUL. A NUL inside a word would split it and let a value become an option. */
function encodeOptions(options: readonly BwrapOption[]): string {
  const words = options.flat()
  const splitWord = words.find((word) => word.includes('\0'))
  if (splitWord !== undefined) throw new Error(`a sandbox argument holds a NUL: ${JSON.stringify(splitWord)}`)
  return words.map((word) => `${word}\0`).join('')
}
