/** Finds the command that fixes a failed bubblewrap start, when the cause is a known one. */
import type { SandboxFault } from '../driver.ts'
import type { LocalMachine } from '../local-machine.ts'

interface KnownCause {
  readonly file: string
  readonly value: string
  readonly problem: string
  readonly advice: string
  cure(bwrap: string): string
}

/** A sentence that helps, and its command apart where the cause is a switch of the kernel. */
export interface KnownFix {
  readonly text: string
  readonly fault?: SandboxFault
}

export const MESSAGE_CHARS_MAX = 500
const SWITCHED_OFF = 'user namespaces are switched off'
const ALLOW = 'allow them with'

/** Kernel switches that deny user namespaces to ordinary users. */
const KNOWN_CAUSES: readonly KnownCause[] = [
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    value: '1',
    problem: 'AppArmor denies user namespaces to programs without a profile',
    advice: 'give bubblewrap one',
    cure: apparmorCommand,
  },
  {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    value: '0',
    problem: SWITCHED_OFF,
    advice: ALLOW,
    cure: () => 'sudo sysctl -w kernel.unprivileged_userns_clone=1',
  },
  {
    file: '/proc/sys/user/max_user_namespaces',
    value: '0',
    problem: SWITCHED_OFF,
    advice: ALLOW,
    cure: () => 'sudo sysctl -w user.max_user_namespaces=15000',
  },
]

/** bubblewrap's messages when it may not create a namespace, or not use the one it created. */
const NAMESPACE_REFUSED = /permission|not permitted|namespace|uid map|RTM_NEWADDR|No space left/i
/** bubblewrap's message for a folder that the sandbox's user cannot reach. */
const SOURCE_UNREACHABLE = /Can't find source path (\S+): Permission denied/

export async function findFix(
  errorText: string,
  bwrap: string,
  machine: LocalMachine,
): Promise<KnownFix | undefined> {
  const [, unreachable] = SOURCE_UNREACHABLE.exec(errorText) ?? []
  if (unreachable !== undefined) {
    return {
      text: `the user that sandboxes run as needs execute permission on every folder above it; check: namei -l ${unreachable}`,
    }
  }
  if (!NAMESPACE_REFUSED.test(errorText)) return findContainerFix(errorText, machine)
  const values = await Promise.all(KNOWN_CAUSES.map(({ file }) => machine.read(file)))
  const found = KNOWN_CAUSES.find(({ value }, index) => values[index]?.trim() === value)
  if (found === undefined) return findContainerFix(errorText, machine)
  const { problem, advice } = found
  const cure = found.cure(bwrap)
  return { text: `${problem}; ${advice}: ${cure}`, fault: { of: 'user-namespaces', problem, cure } }
}

async function findContainerFix(errorText: string, machine: LocalMachine): Promise<KnownFix | undefined> {
  const fault = await findContainerFault(errorText, machine)
  return fault === undefined ? undefined : { text: `${fault.problem}; ${fault.cure}`, fault }
}

/** Allows user namespaces for this one program and leaves the restriction in place for all others. */
function apparmorCommand(bwrap: string): string {
  const profile = `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap ${bwrap} flags=(unconfined) {\\n  userns,\\n}\\n`
  return `printf '${profile}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`
}

// ---- the container around the worker -------------------------------------------------------------------------------

type ContainerRuntime = 'Kubernetes' | 'Podman' | 'Docker' | 'unknown'

const PROC_REFUSED = /Can't mount proc on /
const NO_NEW_NAMESPACE = /No permissions to create new namespace|Creating new namespace failed/
/** The second is Node's own message when root may not become the sandbox's user. */
const ROOT_REFUSED = /setting up uid map|spawn EPERM/

/** Mounted by many machines without any container; it hides nothing from a new /proc. */
const HARMLESS_MOUNT = '/proc/sys/fs/binfmt_misc'
/** So many covered paths suffice to recognise the cause. */
const NAMED_PATHS_MAX = 3

/**
 * Finds out whether a container around the worker is the reason for a failed bubblewrap start, and what to change in it.
 *
 * The rules read facts of this machine: bubblewrap's message, the mounts below /proc, the system call filter, and the
 * marks that container runtimes leave. Causes that a switch of the kernel explains come first.
 */
async function findContainerFault(
  errorText: string,
  machine: LocalMachine,
): Promise<SandboxFault | undefined> {
  const container = await recognizeContainer(machine)
  if (PROC_REFUSED.test(errorText))
    return explainRefusedProc(container, await machine.read('/proc/self/mountinfo'))
  if (container === undefined) return undefined
  if (ROOT_REFUSED.test(errorText) && machine.euid === 0) return faultOf(ROOT_PROBLEM, ROOT_CURES[container])
  const isFiltered = /^Seccomp:\s*2$/m.test((await machine.read('/proc/self/status')) ?? '')
  return NO_NEW_NAMESPACE.test(errorText) && isFiltered
    ? faultOf(FILTER_PROBLEM, FILTER_CURES[container])
    : undefined
}

const faultOf = (problem: string, cure: string): SandboxFault => ({ of: 'container', problem, cure })

async function recognizeContainer(machine: LocalMachine): Promise<ContainerRuntime | undefined> {
  const [environment = '', hosts = '', podman, docker] = await Promise.all(
    ['/proc/self/environ', '/etc/hosts', '/run/.containerenv', '/.dockerenv'].map((path) =>
      machine.read(path),
    ),
  )
  if (
    /(^|\0)KUBERNETES_SERVICE_HOST=/.test(environment) ||
    hosts.startsWith('# Kubernetes-managed hosts file')
  )
    return 'Kubernetes'
  if (podman !== undefined) return 'Podman'
  if (docker !== undefined) return 'Docker'
  return /(^|\0)container=/.test(environment) ? 'unknown' : undefined
}

// ---- a covered /proc -----------------------------------------------------------------------------------------------

/** The kernel shows a new /proc only where the present one shows everything. */
function explainRefusedProc(container: ContainerRuntime | undefined, mounts = ''): SandboxFault | undefined {
  const covered = mounts
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((path) => path.startsWith('/proc/') && path !== HARMLESS_MOUNT)
  if (covered.length === 0) return undefined
  const named = covered.slice(0, NAMED_PATHS_MAX).join(', ')
  const problem = `parts of /proc are covered here (${named}), so the kernel gives the sandbox no /proc of its own`
  return faultOf(problem, PROC_CURES[container ?? 'unknown'])
}

const PROC_CURES: Readonly<Record<ContainerRuntime, string>> = {
  Kubernetes:
    "set procMount: Unmasked in the container's securityContext, and hostUsers: false in the pod's spec (Kubernetes 1.33 or newer)",
  Podman: 'start the container with --security-opt unmask=ALL',
  Docker: 'start the container with --security-opt systempaths=unconfined',
  unknown:
    'have the container runtime, or the systemd unit (ProtectKernelTunables=, ProtectKernelLogs=), leave /proc as it is',
}

// ---- other causes --------------------------------------------------------------------------------------------------

const FILTER_PROBLEM = "the container's system call filter refuses namespaces"
const ADD_CAPABILITY = 'start the container with --cap-add SYS_ADMIN and a user other than root'
const FILTER_CURES: Readonly<Record<ContainerRuntime, string>> = {
  Kubernetes:
    "set capabilities: {drop: [ALL], add: [SYS_ADMIN]} in the container's securityContext, and hostUsers: false in the pod's spec, so that the capability counts inside the pod alone",
  Podman: ADD_CAPABILITY,
  Docker: ADD_CAPABILITY,
  unknown: 'give the container the capability SYS_ADMIN and a user other than root',
}

const ROOT_PROBLEM = 'root in this container may not become the user of a sandbox'
const OTHER_USER = 'start the container as another user: --user 1000:1000'
const ROOT_CURES: Readonly<Record<ContainerRuntime, string>> = {
  Kubernetes: "set runAsUser: 1000 and runAsNonRoot: true in the pod's securityContext",
  Podman: OTHER_USER,
  Docker: OTHER_USER,
  unknown: OTHER_USER,
}
