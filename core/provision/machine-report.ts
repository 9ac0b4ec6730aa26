/**
 * Reads what the check of a target machine has printed, and judges whether a worker can run there. Each refusal names the
 * exact command that cures it.
 *
 * The text comes from another machine: every value is bounded and without control characters before it is used.
 */
import type { HostNode } from '../ports/machines.ts'
import { isPlainPath, type ServiceManagerKind } from './installed-files.ts'
import { remoteLine } from './step-lines.ts'

export interface MachineFacts {
  /** Node's name of the processor. */
  readonly arch: string
  readonly isRoot: boolean
  readonly base: string
  readonly manager: ServiceManagerKind
  /** The program to run the package with; undefined: the host's own is copied. */
  readonly node: string | undefined
  readonly nodeVersion: string
  readonly bwrapVersion: string
  readonly freeBytes: number
  /** Installed by an earlier provisioning. */
  readonly installed?: {
    readonly mark: string
    readonly workerId: string
    /** The SHA-256 of the worker's credential, in hex. */
    readonly proof: string
    readonly installation: string
    readonly isRunning: boolean
  }
}

/** The reason why a machine can't be a worker. */
export interface MachineProblem {
  /** For the line of the step. */
  readonly finding: string
  /** A sentence about the machine, which its name begins. */
  readonly sentence: string
  /** A command or deed, on the machine. */
  readonly cure: string
}

export type MachineJudgement =
  | { readonly ok: true; readonly facts: MachineFacts }
  | { readonly ok: false; readonly problem: MachineProblem }

const ARCHES: Readonly<Record<string, string>> = {
  x86_64: 'x64',
  amd64: 'x64',
  aarch64: 'arm64',
  arm64: 'arm64',
}
const NODE_MIN = '20.11'
const GLIBC_MIN = '2.34'

export function judgeMachine(
  output: string,
  hostNode: HostNode | undefined,
  neededBytes: number,
): MachineJudgement {
  const report = readReport(output)
  const problem =
    platformProblem(report) ??
    foreignProblem(report) ??
    programProblem(report) ??
    sandboxProblem(report) ??
    spaceProblem(report, neededBytes)
  if (problem !== undefined) return { ok: false, problem }
  const manager = managerOf(report)
  if (typeof manager !== 'string') return { ok: false, problem: manager }
  const arch = ARCHES[report.get('machine') ?? ''] ?? ''
  const node = usableNode(report)
  if (node === undefined && hostNode?.arch !== arch)
    return { ok: false, problem: nodeProblem(report, hostNode === undefined ? 'own program' : hostNode.arch) }
  return { ok: true, facts: factsOf(report, { arch, manager, node, hostNode }) }
}

function factsOf(
  report: MachineReport,
  {
    arch,
    manager,
    node,
    hostNode,
  }: {
    readonly arch: string
    readonly manager: ServiceManagerKind
    readonly node: string | undefined
    readonly hostNode: HostNode | undefined
  },
): MachineFacts {
  const read = (key: string) => report.get(key) ?? ''
  const mark = read('installed')
  return {
    arch,
    isRoot: read('uid') === '0',
    base: read('base'),
    manager,
    node,
    nodeVersion: node === undefined ? `${hostNode?.version ?? ''}, copied` : read('nodeVersion'),
    bwrapVersion: read('bwrapVersion').replace(/^bubblewrap /, ''),
    freeBytes: Number(read('free')) * 1024,
    ...(mark === ''
      ? {}
      : {
          installed: {
            mark,
            workerId: read('workerId'),
            proof: read('proof'),
            installation: read('installation'),
            isRunning: read('running') === 'yes',
          },
        }),
  }
}

// ---- the report --------------------------------------------------------------------------------------------------

/** The facts that the check of a machine has printed, by their keys. */
type MachineReport = ReadonlyMap<string, string>

function readReport(output: string): MachineReport {
  const report = new Map<string, string>()
  for (const line of output.split('\n')) {
    const [, key = '', value = ''] = /^([\w/]+) ?(.*)$/.exec(line) ?? []
    const before = report.get(key)
    report.set(key, remoteLine(key === 'missing' && before !== undefined ? `${before} ${value}` : value))
  }
  return report
}

// ---- the system and its programs ---------------------------------------------------------------------------------

function platformProblem(report: MachineReport): MachineProblem | undefined {
  const read = (key: string) => report.get(key) ?? ''
  if (read('end') !== 'checked')
    return {
      finding: 'the check ended early',
      sentence: 'answered the check with something else than facts about itself',
      cure: 'give this user a POSIX shell that prints nothing by itself',
    }
  if (read('system') !== 'Linux' || ARCHES[read('machine')] === undefined)
    return {
      finding: `${read('system')} ${read('machine')}`,
      sentence: `is ${read('system')} on ${read('machine')}, and a worker needs Linux on x86_64 or aarch64`,
      cure: 'take another machine',
    }
  if (!isAtLeast(/^glibc (\d+\.\d+)/.exec(read('libc'))?.[1], GLIBC_MIN))
    return {
      finding: read('libc') || 'no glibc',
      sentence: `has ${read('libc') || 'no glibc'}, and a worker needs glibc ${GLIBC_MIN} or newer`,
      cure: 'take a machine with Debian 12, Ubuntu 22.04, or a later or similar system',
    }
  if (!isPlainPath(read('base')))
    return {
      finding: `home folder ${read('base')}`,
      sentence: 'has a home folder with unusual characters, or none',
      cure: 'provision it as a user whose home folder has letters, digits and . _ - only',
    }
  return undefined
}

/** A worker that was installed by hand stays as it is. */
function foreignProblem(report: MachineReport): MachineProblem | undefined {
  const path = report.get('foreign')
  if (path === undefined) return undefined
  return {
    finding: `${path} is there already`,
    sentence: `has a worker that something else has installed (${path})`,
    cure: 'remove that one, or provision the machine as another user',
  }
}

const PACKAGES: Readonly<Record<string, string>> = {
  setpriv: 'util-linux',
  prlimit: 'util-linux',
  setsid: 'util-linux',
  tar: 'tar',
  gzip: 'gzip',
  sha256sum: 'coreutils',
}

function programProblem(report: MachineReport): MachineProblem | undefined {
  const names = [
    ...(report.get('missing') ?? '').split(' ').filter((name) => PACKAGES[name] !== undefined),
    ...(report.get('git') === undefined ? ['git'] : []),
    ...(report.get('bwrap') === undefined ? ['bwrap'] : []),
  ]
  if (names.length === 0) return undefined
  const packages = [
    ...new Set(names.map((name) => PACKAGES[name] ?? (name === 'bwrap' ? 'bubblewrap' : name))),
  ]
  return {
    finding: `${names.join(', ')}: not installed`,
    sentence: `lacks ${names.join(', ')}`,
    cure: `sudo apt-get install -y ${packages.join(' ')}`,
  }
}

// ---- space, service manager, Node.js ---------------------------------------------------------------------------------

/** The free space that a target must have besides the copied files: what a run needs to start. */
const PROVISION_FREE_BYTES_MIN = 1024 * 1024 * 1024
const PROVISION_FREE_FILES_MIN = 20_000

function spaceProblem(report: MachineReport, neededBytes: number): MachineProblem | undefined {
  const mib = (bytes: number) => `${Math.ceil(bytes / 1024 / 1024)} MiB`
  const base = report.get('base') ?? ''
  const readonly = report.get('readonly')
  if (readonly !== undefined)
    return {
      finding: `${readonly} can't be written`,
      sentence: `does not let this user write below ${readonly}`,
      cure: 'give the user a home folder of its own',
    }
  const free = Number(report.get('free')) * 1024
  const needed = neededBytes + PROVISION_FREE_BYTES_MIN
  if (!(free >= needed))
    return {
      finding: `${mib(free || 0)} free at ${base}`,
      sentence: `has ${mib(free || 0)} free, and a worker needs ${mib(needed)}`,
      cure: `make room on the disk of ${base}`,
    }
  const [all = 0, left = 0] = (report.get('files') ?? '').split(' ').map(Number)
  if (!(all > 0) || left >= PROVISION_FREE_FILES_MIN) return undefined
  return {
    finding: `${left} files left at ${base}`,
    sentence: `has room for ${left} more files, and a worker needs ${PROVISION_FREE_FILES_MIN}`,
    cure: `remove files from the disk of ${base}`,
  }
}

function managerOf(report: MachineReport): ServiceManagerKind | MachineProblem {
  const manager = report.get('manager')
  if (manager === 'system' || manager === 'none') return manager
  const answers = report.get('answers') ?? ''
  if (answers.startsWith('Version=')) return 'user'
  return {
    finding: `systemd: ${answers}`,
    sentence: "has systemd, which has no manager for this user's services",
    cure: 'sudo apt-get install -y dbus-user-session libpam-systemd, or provision it as root',
  }
}

function usableNode(report: MachineReport): string | undefined {
  const path = report.get('node') ?? ''
  const version = /^v(\d+\.\d+)/.exec(report.get('nodeVersion') ?? '')?.[1]
  return isPlainPath(path) && isAtLeast(version, NODE_MIN) ? path : undefined
}

const INSTALL_NODE = 'install Node.js 24: https://nodejs.org/en/download'

function nodeProblem(report: MachineReport, hostArch: string): MachineProblem {
  const found = report.get('nodeVersion') ?? 'none'
  return {
    finding: `Node.js: ${found}`,
    sentence: `has no Node.js ${NODE_MIN} or newer, and this host's is for ${hostArch}`,
    cure: INSTALL_NODE,
  }
}

/** Compares versions of two numbers. */
function isAtLeast(version: string | undefined, min: string): boolean {
  return version !== undefined && version.localeCompare(min, 'en', { numeric: true }) >= 0
}

// ---- sandboxes ---------------------------------------------------------------------------------------------------

function sandboxProblem(report: MachineReport): MachineProblem | undefined {
  const result = report.get('sandbox') ?? ''
  if (result === 'works') return undefined
  const finding = result.startsWith('bwrap') ? result : `bwrap: ${result}`
  const { sentence, cure } = sandboxCure(report)
  return { finding, sentence: `can't make sandboxes: ${sentence}`, cure }
}

function sandboxCure(report: MachineReport): { readonly sentence: string; readonly cure: string } {
  const off = 'user namespaces are switched off'
  if (report.get('kernel/apparmor_restrict_unprivileged_userns') === '1')
    return {
      sentence: 'AppArmor denies user namespaces to programs without a profile',
      cure: apparmorCommand(report.get('bwrap') ?? ''),
    }
  if (report.get('kernel/unprivileged_userns_clone') === '0')
    return { sentence: off, cure: 'sudo sysctl -w kernel.unprivileged_userns_clone=1' }
  if (report.get('user/max_user_namespaces') === '0')
    return { sentence: off, cure: 'sudo sysctl -w user.max_user_namespaces=15000' }
  return {
    sentence: 'bubblewrap was refused by the system',
    cure: 'allow user namespaces and an unmasked /proc; in a container both are settings of the container',
  }
}

/** The worker's own advice, for the same cause. */
function apparmorCommand(bwrap: string): string {
  const path = isPlainPath(bwrap) ? bwrap : '/usr/bin/bwrap'
  const profile = `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap ${path} flags=(unconfined) {\\n  userns,\\n}\\n`
  return `printf '${profile}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`
}
