/**
 * Finds out whether a container around the worker is the reason for a failed bubblewrap start, and what to change in it.
 *
 * The rules read facts of this machine: bubblewrap's message, the mounts below /proc, the system call filter, and the
 * marks that container runtimes leave. Causes that a switch of the kernel explains are left to `error-hints.ts`.
 */
import type { SandboxFault } from '../driver.ts'
import type { LocalMachine } from '../local-machine.ts'

type ContainerRuntime = 'Kubernetes' | 'Podman' | 'Docker' | 'unknown'

const PROC_REFUSED = /Can't mount proc on /
const NAMESPACE_REFUSED = /No permissions to create new namespace|Creating new namespace failed/
/** The second is Node's own message when root may not become the sandbox's user. */
const ROOT_REFUSED = /setting up uid map|spawn EPERM/

/** Mounted by many machines without any container; it hides nothing from a new /proc. */
const HARMLESS_MOUNT = '/proc/sys/fs/binfmt_misc'
/** So many covered paths suffice to recognise the cause. */
const NAMED_PATHS_MAX = 3

export async function findContainerFault(
  errorText: string,
  machine: LocalMachine,
): Promise<SandboxFault | undefined> {
  const container = await recognizeContainer(machine)
  if (PROC_REFUSED.test(errorText))
    return explainRefusedProc(container, await machine.read('/proc/self/mountinfo'))
  if (container === undefined) return undefined
  if (ROOT_REFUSED.test(errorText) && machine.euid === 0) return faultOf(ROOT_PROBLEM, ROOT_CURES[container])
  const isFiltered = /^Seccomp:\s*2$/m.test((await machine.read('/proc/self/status')) ?? '')
  return NAMESPACE_REFUSED.test(errorText) && isFiltered
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
