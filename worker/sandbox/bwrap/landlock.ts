/**
 * Restricts a sandbox's processes by Landlock: files are read and executed only below the sandbox's own root, and
 * written only where a plan lets them be written.
 *
 * The mounts promise the same. Landlock keeps the promise where a mount, a leaked descriptor or a path through another
 * process would break it, and processes outside can't be signalled or traced. Only the process itself can take on these
 * rules, after bubblewrap has made the mounts; Perl is the one interpreter of every Debian that can make system calls.
 */
import { HOME, WORK } from '../inside-paths.ts'
import type { LocalMachine } from '../local-machine.ts'
import type { SandboxMount } from '../sandbox-process.ts'

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

/** The command line that takes on the rules inside a sandbox, and then becomes `command`. */
export function landlockedCommand(
  command: readonly string[],
  mounts: readonly SandboxMount[] = [],
): readonly string[] {
  const mounted = mounts.filter(({ writable = false }) => writable).map(({ to }) => to)
  return [PERL, '-e', SCRIPT, ...WRITABLE_PATHS, ...mounted, '--', ...command]
}
