/**
 * Builds the chain of programs around a command: `setpriv` and bubblewrap outside, `prlimit`, Landlock and the gate
 * inside.
 *
 * setpriv drops remaining privileges. prlimit limits the processes in the sandbox's own user namespace, separately
 * from the user's other processes. The gate guarantees that no command outlives a worker that dies early: bubblewrap's
 * processes request their death signals one by one, and a request after the parent's death has no effect. So the
 * command waits until the worker, which knows that all signals are in place, writes `GATE_WORD`; at end of input the
 * gate exits.
 */
import { readFileSync } from 'node:fs'
import type { SandboxMount } from '../driver.ts'
import { HOME, WORK } from '../inside-paths.ts'
import type { LocalMachine } from '../local-machine.ts'

export const SETPRIV = '/usr/bin/setpriv'
const PRLIMIT = '/usr/bin/prlimit'
const SHELL = '/bin/sh'
/** Programs that must be installed besides bubblewrap. */
export const REQUIRED_PROGRAMS: readonly string[] = [SETPRIV, PRLIMIT, SHELL]

const OPEN_FILES_MAX = 8_192
const FILE_BYTES_MAX = 4 * 1024 ** 3
/** bubblewrap's own process inside the sandbox, which the limit must not count. */
const INIT_PROCESSES = 1

export const GATE_WORD = 'go\n'
const GATE = '{ read -r word && [ "$word" = go ]; } || exit 125; exec "$@"'

export function outerCommand(
  bwrap: string,
  bwrapArguments: readonly string[],
  command: readonly string[],
): { program: string; args: string[] } {
  return {
    program: SETPRIV,
    args: ['--no-new-privs', '--inh-caps=-all', '--', bwrap, ...bwrapArguments, ...command],
  }
}

/** Omit `processes` when a control group counts them. Address space stays unlimited: a limit breaks WebAssembly. */
export function limitedCommand(command: readonly string[], processes?: number): string[] {
  const limits: readonly (readonly [option: string, name: string, value: number])[] = [
    ['core', 'Max core file size', 0],
    ['nofile', 'Max open files', OPEN_FILES_MAX],
    ['fsize', 'Max file size', FILE_BYTES_MAX],
    ...(processes === undefined ? [] : [['nproc', 'Max processes', processes + INIT_PROCESSES] as const]),
  ]
  const ownLimits = readFileSync('/proc/self/limits', 'utf8')
  const options = limits.map(([option, name, value]) => {
    const limit = Math.min(value, readHardLimit(ownLimits, name))
    return `--${option}=${limit}:${limit}`
  })
  return [PRLIMIT, ...options, '--', ...command]
}

/** A child of this process cannot raise a limit above this process's own hard limit. */
function readHardLimit(limits: string, name: string): number {
  const [, hard] = new RegExp(`^${name} +\\S+ +(\\d+) `, 'm').exec(limits) ?? []
  return hard === undefined ? Number.POSITIVE_INFINITY : Number(hard)
}

/**
 * The gate reads one line of standard input and leaves the rest to the command. `owner` only marks the command line.
 */
export function gatedCommand(command: readonly string[], hasInput: boolean, owner: string): string[] {
  return [SHELL, '-c', hasInput ? GATE : `${GATE} </dev/null`, owner, ...command]
}

// ---- Landlock ------------------------------------------------------------------------------------------------------

const PERL = '/usr/bin/perl'
/** The first version with a right to move files between folders; before it, nothing under Landlock may move any. */
const VERSION_MIN = 2
const QUERY_MS_MAX = 5_000
const WRITABLE_PATHS = [WORK, HOME, '/tmp', '/dev']

/** The same number on all architectures. */
const CREATE_RULESET = 444
const VERSION_QUERY = `print syscall ${CREATE_RULESET}, 0, 0, 1`

/**
 * Bits of rights: the kernel of version 2 knows 14, of version 3 also truncation, of version 5 also ioctls of devices.
 * `13` is to execute, to read files and to list folders; `0x840` is to make device files, which nobody may. The last
 * number of the ruleset closes abstract sockets and signals.
 */
const SCRIPT = `
sub fail { print STDERR "Landlock: $_[0]: $!\\n"; exit 125 }
my $version = syscall ${CREATE_RULESET}, 0, 0, 1;
my $all = $version > 4 ? 0xffff : $version > 2 ? 0x7fff : 0x3fff;
my $rules = syscall ${CREATE_RULESET}, pack('Q3', $all, 0, $version > 5 ? 3 : 0), 24, 0;
fail 'rules' if $rules < 0;
sub allow {
  my ($path, $rights) = @_;
  sysopen my $folder, $path, 010000000 or fail $path;
  syscall(445, $rules, 1, pack('Ql', $all & $rights, fileno $folder), 0) == 0 or fail $path;
}
allow '/', 13;
while ((my $path = shift) ne '--') { allow $path, ~0x840 }
syscall(446, $rules, 0) == 0 or fail 'restrict';
exec { $ARGV[0] } @ARGV;
fail $ARGV[0];
`

/** Returns why this machine has no Landlock; undefined when it has. */
export async function findLandlockProblem(machine: LocalMachine): Promise<string | undefined> {
  if (!(await machine.isProgram(PERL))) return `${PERL} is not installed`
  const queried = await machine.run({ program: PERL, args: ['-e', VERSION_QUERY], timeoutMs: QUERY_MS_MAX })
  const version = queried.is === 'exited' ? Number.parseInt(queried.stdout, 10) : Number.NaN
  if (version >= VERSION_MIN) return undefined
  return version === 1 ? 'the kernel is older than 5.19' : 'the kernel does not offer it'
}

/**
 * Restricts a sandbox's processes by Landlock: the command line takes on the rules, and then becomes `command`. Files
 * are read and executed only below the sandbox's own root, and written only where a plan lets them be written.
 *
 * The mounts promise the same. Landlock keeps the promise where a mount, a leaked descriptor or a path through another
 * process would break it, and processes outside can't be signalled or traced. Only the process itself can take on
 * these rules, after bubblewrap has made the mounts; Perl is the one interpreter of every Debian that can make system
 * calls.
 */
export function landlockedCommand(
  command: readonly string[],
  mounts: readonly SandboxMount[] = [],
): readonly string[] {
  const mounted = mounts.filter(({ writable = false }) => writable).map(({ to }) => to)
  return [PERL, '-e', SCRIPT, ...WRITABLE_PATHS, ...mounted, '--', ...command]
}
