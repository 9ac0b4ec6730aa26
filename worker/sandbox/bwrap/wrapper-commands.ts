/**
 * Builds the chain of programs around a command: `setpriv` and bubblewrap outside, `prlimit`, Landlock (`landlock.ts`)
 * and the gate inside.
 *
 * setpriv drops remaining privileges. prlimit limits the processes in the sandbox's own user namespace, separately from
 * the user's other processes. The gate guarantees that no command outlives a worker that dies early: bubblewrap's
 * processes request their death signals one by one, and a request after the parent's death has no effect. So the
 * command waits until the worker, which knows that all signals are in place, writes `GATE_WORD`; at end of input the
 * gate exits.
 */
import { readFileSync } from 'node:fs'

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
