/**
 * A sandbox that tries to get out, once, before any agent gets to: the five ways that matter most, and what the kernel
 * says about the process that tried.
 *
 * It harms nothing where it should succeed: a file is opened and not written, a process is asked for and not ended.
 */
import { limitedCommand } from './wrapper-commands.ts'

/** What is outside, for comparing with what there is inside. */
export interface EscapeTarget {
  readonly pid: number
  /** Of a listener on the host's loopback. */
  readonly port: number
  readonly home: string
  /** Device and inode of the home folder. */
  readonly inode: string
  /** As the links below /proc/self/ns read. */
  readonly namespaces: readonly string[]
}

export const NAMESPACES = ['user', 'pid', 'net', 'mnt', 'ipc', 'uts', 'cgroup'] as const

const REQUIRED_TOOLS = ['unshare', 'mount', 'stat', 'readlink', 'cat']
const ATTEMPTS: Readonly<Record<string, string>> = {
  mount: 'mounting in a user namespace of its own',
  core_pattern: "writing the kernel's core_pattern",
  kill: 'reaching a process of the host',
  loopback: "connecting to the host's loopback",
  home: "seeing the host's home folder",
}

const SCRIPT = `
pid=$1 port=$2 home=$3 inode=$4
for tool in ${REQUIRED_TOOLS.join(' ')}; do command -v $tool >/dev/null || echo "missing $tool"; done
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo "done $what"; else echo "refused $what"; fi; }
try mount unshare --user --map-root-user --mount mount -t tmpfs none /tmp
try core_pattern sh -c ': >> /proc/sys/kernel/core_pattern'
try kill kill -0 "$pid"
try loopback bash -c ": <>/dev/tcp/127.0.0.1/$port"
try home sh -c '[ "$(stat -c %d:%i "$1")" = "$2" ]' sh "$home" "$inode"
for kind in ${NAMESPACES.join(' ')}; do echo "namespace $(readlink /proc/self/ns/$kind)"; done
cat /proc/self/status
`
/** Below, a number outside may well be somebody else's inside: then the namespace alone has to tell. */
const UNAMBIGUOUS_PID_MIN = 100
const PROCESSES_MAX = 64

export function escapeTestCommand({ pid, port, home, inode }: EscapeTarget): string[] {
  const targetPid = pid >= UNAMBIGUOUS_PID_MIN ? String(pid) : 'none'
  return limitedCommand(
    ['/bin/sh', '-c', SCRIPT, 'trial', targetPid, String(port), home, inode],
    PROCESSES_MAX,
  )
}

/** What is wrong with a sandbox in which this was said; undefined when nothing is. */
export function findEscapes(output: string, target: EscapeTarget): string | undefined {
  const lines = output.split('\n')
  const missing = lines.filter((line) => line.startsWith('missing ')).map((line) => line.slice(8))
  if (missing.length > 0)
    return `it can't be tried without ${missing.join(', ')}; install util-linux and coreutils`
  const escapes = [
    ...findSuccessfulAttempts(lines),
    ...findSharedNamespaces(lines, target),
    ...findMissingGuards(output),
  ]
  return escapes.length === 0 ? undefined : `its walls have holes: ${escapes.join(', ')}`
}

function findSuccessfulAttempts(lines: readonly string[]): string[] {
  return Object.entries(ATTEMPTS).flatMap(([name, attempt]) => {
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
