/**
 * The programs between the worker and the command: `setpriv`, bubblewrap, and inside `prlimit` and the gate.
 *
 * setpriv gives up what rights are left over, and bubblewrap is then unable to gain any. prlimit sets the limits
 * inside: the number of processes counts within the sandbox's own user namespace from there on, and not together with
 * whatever else the same user runs.
 *
 * The gate is why nothing outlives a worker that dies early. bubblewrap's own processes ask for the death signal one
 * after the other while the sandbox is being made, and whoever asks when its parent is already gone never gets it. So
 * the command waits for a word of the worker, who says it only when every such signal is in place; should the worker
 * be gone by then, the gate reads an end, and ends.
 */
import { readFileSync } from 'node:fs'

export const SETPRIV = '/usr/bin/setpriv'
const PRLIMIT = '/usr/bin/prlimit'
const SHELL = '/bin/sh'
/** What has to be on the machine besides bubblewrap. */
export const REQUIRED_PROGRAMS: readonly string[] = [SETPRIV, PRLIMIT, SHELL]

const OPEN_FILES_MAX = 8_192
const FILE_BYTES_MAX = 4 * 1024 ** 3
/** bubblewrap's own process inside, which no limit of ours is about. */
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

/** `processes`: absent when somebody else counts them. No limit on address space: it breaks WebAssembly. */
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

/** Of this process, and so of all that it starts: nobody inside may ask for more. */
function readHardLimit(limits: string, name: string): number {
  const [, hard] = new RegExp(`^${name} +\\S+ +(\\d+) `, 'm').exec(limits) ?? []
  return hard === undefined ? Number.POSITIVE_INFINITY : Number(hard)
}

/** The word is one line of standard input; what follows it is the command's. `owner` is only there to be seen. */
export function gatedCommand(command: readonly string[], hasInput: boolean, owner: string): string[] {
  return [SHELL, '-c', hasInput ? GATE : `${GATE} </dev/null`, owner, ...command]
}
