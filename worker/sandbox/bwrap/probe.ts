/**
 * Probes whether this machine can sandbox an agent, by running the escape test with the argument list that runs use.
 *
 * The probe never falls back to a weaker sandbox: it leaves out the host name alone, which isolates nothing. A failed
 * probe reports the reason and, for a known cause, what cures it.
 */

import { toSentence } from '../../../core/printable-output.ts'
import type { SandboxFault, SandboxUnavailable } from '../driver.ts'
import {
  type CommandOutcome,
  ESCAPE_TEST_PROCESSES_MAX,
  type EscapeTarget,
  escapeTestCommand,
  findEscapes,
  type LocalMachine,
  type ProbeCommand,
  thisMachine,
} from '../local-machine.ts'
import { buildSandboxArguments, buildSandboxOptions, listOptionNames, type SandboxPlan } from './arguments.ts'
import { findFix, MESSAGE_CHARS_MAX } from './error-hints.ts'
import { ARCHITECTURES } from './seccomp/calls.ts'
import {
  findLandlockProblem,
  landlockedCommand,
  limitedCommand,
  outerCommand,
  REQUIRED_PROGRAMS,
} from './wrapper-commands.ts'

/**
 * @property bwrap the path of the program
 * @property keepsHostName whether sandboxes keep the machine's host name, because it can't be changed
 * @property landlockProblem why sandboxes go without Landlock; absent where they have it
 */
export type BwrapProbe =
  | {
      readonly ok: true
      readonly bwrap: string
      readonly keepsHostName: boolean
      readonly landlockProblem?: string
    }
  | SandboxUnavailable

const PROBE_MS_MAX = 5_000

/** Absolute paths, so that the worker's PATH does not decide which program is trusted. */
export const BWRAP_PATHS: readonly string[] = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap']

/** A root worker probes as nobody, because root inside a namespace still has root's access to the host's /proc. */
const NOBODY = { uid: 65_534, gid: 65_534 }

/** Uses every feature of a plan, so that the probe detects missing bubblewrap options before a run needs them. */
const FULL_PLAN: SandboxPlan = {
  homeFolder: '/',
  workFolder: '/',
  mounts: [{ from: '/', to: '/' }],
  egressSocket: '/',
  reportsStatus: true,
}

export async function probeSandbox(
  machine: LocalMachine = thisMachine(),
  paths = BWRAP_PATHS,
): Promise<BwrapProbe> {
  const platformProblem = findPlatformProblem(machine)
  if (platformProblem !== undefined)
    return { ok: false, reason: 'unsupported-platform', detail: platformProblem }
  const bwrap = await findFirstProgram(machine, paths)
  if (bwrap === undefined) {
    const cure = 'sudo apt-get install -y bubblewrap'
    return unavailable({
      detail: `bubblewrap is not installed (looked for ${paths.join(', ')}); install it with: ${cure}`,
      fault: { of: 'program', problem: 'bwrap is not installed', cure },
    })
  }
  return probeBwrap(bwrap, machine)
}

interface BwrapProblem {
  readonly detail: string
  readonly fault?: SandboxFault
}

const unavailable = (problem: BwrapProblem): SandboxUnavailable => ({
  ok: false,
  reason: 'bwrap-unavailable',
  ...problem,
})

/** A problem without a command that mends it. */
const described = (detail: string | undefined): BwrapProblem | undefined =>
  detail === undefined ? undefined : { detail }

function findPlatformProblem({ platform, arch }: LocalMachine): string | undefined {
  if (platform !== 'linux') return `the sandbox needs Linux; this is ${platform}`
  const known = Object.keys(ARCHITECTURES)
  return known.includes(arch) ? undefined : `the sandbox needs one of ${known.join(', ')}; this is ${arch}`
}

async function findFirstProgram(
  machine: LocalMachine,
  paths: readonly string[],
): Promise<string | undefined> {
  const found = await Promise.all(paths.map((path) => machine.isProgram(path)))
  return paths.find((_, index) => found[index])
}

async function probeBwrap(bwrap: string, machine: LocalMachine): Promise<BwrapProbe> {
  const isPresent = await Promise.all(REQUIRED_PROGRAMS.map((path) => machine.isProgram(path)))
  const absent = REQUIRED_PROGRAMS.filter((_, index) => !isPresent[index])
  if (absent.length > 0) {
    const [problem, cure] = [`${absent.join(', ')} is missing`, 'sudo apt-get install -y util-linux']
    return unavailable({
      detail: `${problem}; install it with: ${cure}`,
      fault: { of: 'program', problem, cure },
    })
  }
  const target = await machine.openEscapeTarget()
  try {
    const landlockProblem = await findLandlockProblem(machine)
    const hasLandlock = landlockProblem === undefined
    const testEscapes = (plan: SandboxPlan) =>
      machine.run(escapeTestOf(bwrap, machine, target, plan, hasLandlock))
    const [help, first] = await Promise.all([machine.run(helpCommand(bwrap)), testEscapes({})])
    const keepsHostName = isHostNameRefused(first)
    const escapeTest = keepsHostName ? await testEscapes({ keepsHostName }) : first
    const problem =
      described(findMissingOptions(help, bwrap)) ??
      (await explainFailure(escapeTest, bwrap, machine)) ??
      described(explainEscapes(escapeTest, bwrap, target, hasLandlock))
    if (problem !== undefined) return unavailable(problem)
    return { ok: true, bwrap, keepsHostName, ...(hasLandlock ? {} : { landlockProblem }) }
  } finally {
    target.close()
  }
}

// ---- commands ----------------------------------------------------------------------------------------------------

function helpCommand(bwrap: string): ProbeCommand {
  return { program: bwrap, args: ['--help'], timeoutMs: PROBE_MS_MAX }
}

function escapeTestOf(
  bwrap: string,
  { euid, arch }: LocalMachine,
  target: EscapeTarget,
  plan: SandboxPlan,
  hasLandlock: boolean,
): ProbeCommand {
  const { commandLine, inputs } = buildSandboxArguments(plan, arch)
  const as = euid === 0 ? { as: NOBODY } : {}
  const test = escapeTestCommand(target)
  const command = hasLandlock ? landlockedCommand(test) : test
  return {
    ...outerCommand(bwrap, commandLine, limitedCommand(command, ESCAPE_TEST_PROCESSES_MAX)),
    inputs,
    timeoutMs: PROBE_MS_MAX,
    ...as,
  }
}

// ---- outcomes ------------------------------------------------------------------------------------------------------

function findMissingOptions(help: CommandOutcome, bwrap: string): string | undefined {
  if (help.is !== 'exited' || help.code !== 0)
    return `${bwrap} --help does not work: ${describeOutcome(help)}`
  const known = new Set(`${help.stdout}\n${help.stderr}`.match(/--[a-z0-9-]+/g))
  const missing = listOptionNames(buildSandboxOptions(FULL_PLAN)).filter((name) => !known.has(name))
  if (missing.length === 0) return undefined
  return `${bwrap} is too old, it does not know ${missing.join(', ')}; bubblewrap 0.8.0 or newer is needed`
}

/**
 * Container runtimes may refuse `sethostname` although the sandbox has a namespace for it. The name isolates nothing, so
 * the sandbox goes without one of its own.
 */
function isHostNameRefused(escapeTest: CommandOutcome): boolean {
  return (
    escapeTest.is === 'exited' && escapeTest.code !== 0 && /Can't set hostname to /.test(escapeTest.stderr)
  )
}

async function explainFailure(
  escapeTest: CommandOutcome,
  bwrap: string,
  machine: LocalMachine,
): Promise<BwrapProblem | undefined> {
  if (escapeTest.is === 'exited' && escapeTest.code === 0) return undefined
  const errorText = errorTextOf(escapeTest)
  const fix = errorText === undefined ? undefined : await findFix(errorText, bwrap, machine)
  const detail = `${bwrap} cannot make a sandbox: ${describeOutcome(escapeTest)}`
  if (fix === undefined) return { detail }
  const { text, fault } = fix
  return { detail: `${detail}; ${text}`, ...(fault && { fault }) }
}

function errorTextOf(outcome: CommandOutcome): string | undefined {
  if (outcome.is === 'exited') return outcome.stderr
  return outcome.is === 'not started' ? outcome.reason : undefined
}

function explainEscapes(
  escapeTest: CommandOutcome,
  bwrap: string,
  target: EscapeTarget,
  hasLandlock: boolean,
): string | undefined {
  const escapes = escapeTest.is === 'exited' ? findEscapes(escapeTest.stdout, target, hasLandlock) : undefined
  return escapes === undefined ? undefined : `${bwrap} makes a sandbox, but ${escapes}`
}

function describeOutcome(outcome: CommandOutcome): string {
  switch (outcome.is) {
    case 'too slow':
      return `it did not end within ${PROBE_MS_MAX / 1000} s`
    case 'not started':
      return toSentence(outcome.reason, MESSAGE_CHARS_MAX)
    case 'killed':
      return `ended by ${outcome.signal} ${toSentence(outcome.stderr, MESSAGE_CHARS_MAX)}`.trim()
    case 'exited':
      return toSentence(outcome.stderr, MESSAGE_CHARS_MAX) || `exit code ${outcome.code}`
  }
}
