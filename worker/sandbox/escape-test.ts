/**
 * The escape test: a script that runs once in a sandbox and tries the five most important ways out of it, and one that
 * Landlock alone closes.
 *
 * The test also checks the namespaces and the process status as the kernel reports them. A successful attempt changes
 * nothing: files are opened but not written, a process is probed but not ended, and what is made is removed.
 */

/** Facts about the host that the test compares with what it finds inside. */
export interface EscapeTarget {
  readonly pid: number
  /** Port of a listener on the host's loopback. */
  readonly port: number
  readonly home: string
  /** Device and inode of the home folder. */
  readonly inode: string
  /** The link targets below /proc/self/ns. */
  readonly namespaces: readonly string[]
}

export const NAMESPACES = ['user', 'pid', 'net', 'mnt', 'ipc', 'uts', 'cgroup'] as const

const REQUIRED_TOOLS = ['unshare', 'mount', 'stat', 'readlink', 'cat', 'mknod']
const ATTEMPTS: Readonly<Record<string, string>> = {
  mount: 'mounting in a user namespace of its own',
  core_pattern: "writing the kernel's core_pattern",
  kill: 'reaching a process of the host',
  loopback: "connecting to the host's loopback",
  home: "seeing the host's home folder",
}
/** The device 0, 0 is the only one that every user may make. */
const LANDLOCK_ATTEMPTS: Readonly<Record<string, string>> = { device: 'making a device file' }

const SCRIPT = `
pid=$1 port=$2 home=$3 inode=$4
for tool in ${REQUIRED_TOOLS.join(' ')}; do command -v $tool >/dev/null || echo "missing $tool"; done
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo "done $what"; else echo "refused $what"; fi; }
try mount unshare --user --map-root-user --mount mount -t tmpfs none /tmp
try core_pattern sh -c ': >> /proc/sys/kernel/core_pattern'
try kill kill -0 "$pid"
try loopback bash -c ": <>/dev/tcp/127.0.0.1/$port"
try home sh -c '[ "$(stat -c %d:%i "$1")" = "$2" ]' sh "$home" "$inode"
try device sh -c 'mknod "$1" c 0 0 && rm "$1"' sh "/tmp/switchyard-device-$$"
for kind in ${NAMESPACES.join(' ')}; do echo "namespace $(readlink /proc/self/ns/$kind)"; done
cat /proc/self/status
`
/**
 * A lower pid may exist inside the sandbox too, so the `kill` attempt would prove nothing; the namespace check must do.
 */
const UNAMBIGUOUS_PID_MIN = 100
export const ESCAPE_TEST_PROCESSES_MAX = 64

export function escapeTestCommand({ pid, port, home, inode }: EscapeTarget): string[] {
  const targetPid = pid >= UNAMBIGUOUS_PID_MIN ? String(pid) : 'none'
  return ['/bin/sh', '-c', SCRIPT, 'trial', targetPid, String(port), home, inode]
}

/** Describes the gaps that this test output shows; undefined when the sandbox isolates completely. */
export function findEscapes(output: string, target: EscapeTarget, hasLandlock = false): string | undefined {
  const lines = output.split('\n')
  const missing = lines.filter((line) => line.startsWith('missing ')).map((line) => line.slice(8))
  if (missing.length > 0)
    return `it cannot be tested without ${missing.join(', ')}; install util-linux and coreutils`
  const escapes = [
    ...findSuccessfulAttempts(lines, hasLandlock ? { ...ATTEMPTS, ...LANDLOCK_ATTEMPTS } : ATTEMPTS),
    ...findSharedNamespaces(lines, target),
    ...findMissingGuards(output),
  ]
  return escapes.length === 0 ? undefined : `it does not isolate: ${escapes.join(', ')}`
}

function findSuccessfulAttempts(
  lines: readonly string[],
  attempts: Readonly<Record<string, string>>,
): string[] {
  return Object.entries(attempts).flatMap(([name, attempt]) => {
    if (lines.includes(`refused ${name}`)) return []
    return [lines.includes(`done ${name}`) ? `${attempt} was possible` : `${attempt} was not tried`]
  })
}

function findSharedNamespaces(lines: readonly string[], { namespaces }: EscapeTarget): string[] {
  return NAMESPACES.flatMap((kind, index) => {
    const inside = lines.find((line) => line.startsWith(`namespace ${kind}:`))?.slice(10)
    return inside !== undefined && inside !== namespaces[index] ? [] : [`the ${kind} namespace is the host's`]
  })
}

const PROCESS_GUARDS: readonly (readonly [RegExp, what: string])[] = [
  [/^NoNewPrivs:\s*1$/m, 'programs may gain rights'],
  [/^Seccomp:\s*2$/m, 'system calls are not filtered'],
  [/^CapEff:\s*0+$/m, 'it has capabilities'],
  [/^CapBnd:\s*0+$/m, 'it could gain capabilities'],
]

function findMissingGuards(output: string): string[] {
  return PROCESS_GUARDS.filter(([pattern]) => !pattern.test(output)).map(([, problem]) => problem)
}
