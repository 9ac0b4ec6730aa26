/**
 * Whether this machine can sandbox an agent: found out by doing it, once, with the very list of arguments that runs
 * will have, and something in the agent's place that tries to get out.
 *
 * Nothing weaker is ever tried instead. When it doesn't work the answer says why, and where the cause is a known one,
 * the command that cures it.
 */
import type { HostExecution } from '../../protocol/worker.ts'
import { optionNames, sandboxArguments, sandboxOptions } from './arguments.ts'
import { cureFor, plain } from './bwrap-error-hints.ts'
import { holesIn, type Outside, trialCommand } from './escape-test.ts'
import { type Command, type Ended, type Machine, thisMachine } from './local-machine.ts'
import { ARCHITECTURES } from './seccomp/calls.ts'
import { outside, PROGRAMS } from './wrapper-commands.ts'

export type SandboxProbe =
  | { readonly ok: true; readonly bwrap: string }
  | { readonly ok: false; readonly reason: Unavailable; readonly detail: string }

type Unavailable = Extract<HostExecution, { kind: 'none' }>['reason']

const PROBE_MS_MAX = 5_000

/** By absolute path, so that nobody's PATH decides what is trusted. */
export const BWRAP_PATHS: readonly string[] = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap']

/** Root inside a namespace is still root to /proc outside it: what root starts runs as nobody. */
const NOBODY = { uid: 65_534, gid: 65_534 }

/** Everything that a plan may make use of, so that an option it needs is missed now and not in the middle of a run. */
const FULL_PLAN = {
  home: '/',
  work: '/',
  mounts: [{ from: '/', to: '/' }],
  egressSocket: '/',
  reports: true,
}

export async function probeSandbox(
  machine: Machine = thisMachine(),
  paths = BWRAP_PATHS,
): Promise<SandboxProbe> {
  const strange = objectionToMachine(machine)
  if (strange !== undefined) return { ok: false, reason: 'unsupported-platform', detail: strange }
  const bwrap = await firstProgram(machine, paths)
  if (bwrap === undefined) {
    return unavailable(
      `bubblewrap is not installed (looked for ${paths.join(', ')}); install it with: sudo apt-get install -y bubblewrap`,
    )
  }
  const detail = await objectionToBwrap(bwrap, machine)
  return detail === undefined ? { ok: true, bwrap } : unavailable(detail)
}

function unavailable(detail: string): SandboxProbe {
  return { ok: false, reason: 'bwrap-unavailable', detail }
}

function objectionToMachine({ platform, arch }: Machine): string | undefined {
  if (platform !== 'linux') return `the sandbox needs Linux; this is ${platform}`
  const known = Object.keys(ARCHITECTURES)
  return known.includes(arch) ? undefined : `the sandbox needs one of ${known.join(', ')}; this is ${arch}`
}

async function firstProgram(machine: Machine, paths: readonly string[]): Promise<string | undefined> {
  const found = await Promise.all(paths.map((path) => machine.isProgram(path)))
  return paths.find((_, index) => found[index])
}

async function objectionToBwrap(bwrap: string, machine: Machine): Promise<string | undefined> {
  const here = await Promise.all(PROGRAMS.map((path) => machine.isProgram(path)))
  const absent = PROGRAMS.filter((_, index) => !here[index])
  if (absent.length > 0)
    return `${absent.join(', ')} is missing; install it with: sudo apt-get install -y util-linux`
  const witness = await machine.witness()
  try {
    const [help, trial] = await Promise.all([
      machine.run(helpOf(bwrap)),
      machine.run(trialOf(bwrap, machine, witness)),
    ])
    return lacking(help, bwrap) ?? (await failing(trial, bwrap, machine)) ?? leaking(trial, bwrap, witness)
  } finally {
    witness.close()
  }
}

// ---- what is run -------------------------------------------------------------------------------------------------

function helpOf(bwrap: string): Command {
  return { program: bwrap, args: ['--help'], timeoutMs: PROBE_MS_MAX }
}

function trialOf(bwrap: string, { euid, arch }: Machine, host: Outside): Command {
  const { visible, fed } = sandboxArguments({}, arch)
  const as = euid === 0 ? { as: NOBODY } : {}
  return { ...outside(bwrap, visible, trialCommand(host)), fed, timeoutMs: PROBE_MS_MAX, ...as }
}

// ---- what came of it -----------------------------------------------------------------------------------------------

function lacking(help: Ended, bwrap: string): string | undefined {
  if (help.is !== 'exited' || help.code !== 0) return `${bwrap} --help does not work: ${account(help)}`
  const known = new Set(`${help.output}\n${help.complaint}`.match(/--[a-z0-9-]+/g))
  const missing = optionNames(sandboxOptions(FULL_PLAN)).filter((name) => !known.has(name))
  if (missing.length === 0) return undefined
  return `${bwrap} is too old, it does not know ${missing.join(', ')}; bubblewrap 0.8.0 or newer is needed`
}

async function failing(trial: Ended, bwrap: string, machine: Machine): Promise<string | undefined> {
  if (trial.is === 'exited' && trial.code === 0) return undefined
  const cure = trial.is === 'exited' ? await cureFor(trial.complaint, bwrap, machine) : undefined
  return `${bwrap} cannot make a sandbox: ${account(trial)}${cure === undefined ? '' : `; ${cure}`}`
}

function leaking(trial: Ended, bwrap: string, host: Outside): string | undefined {
  const holes = trial.is === 'exited' ? holesIn(trial.output, host) : undefined
  return holes === undefined ? undefined : `${bwrap} makes a sandbox, but ${holes}`
}

function account(ended: Ended): string {
  switch (ended.is) {
    case 'too slow':
      return `no answer within ${PROBE_MS_MAX / 1000} s`
    case 'not started':
      return plain(ended.reason)
    case 'killed':
      return `ended by ${ended.signal} ${plain(ended.complaint)}`.trim()
    case 'exited':
      return plain(ended.complaint) || `exit code ${ended.code}`
  }
}
