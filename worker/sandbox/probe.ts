/**
 * Whether this machine can sandbox an agent: found out by doing it, once, with the very list of arguments that runs
 * will have and `/bin/true` in an agent's place.
 *
 * Nothing weaker is ever tried instead. When it doesn't work the answer says why, and where the cause is a known one,
 * the command that cures it.
 */
import type { HostExecution } from '../../protocol/worker.ts'
import { optionNames, type SandboxArguments, sandboxArguments, sandboxOptions } from './arguments.ts'
import { type Command, type Ended, type Machine, thisMachine } from './machine.ts'

export type SandboxProbe =
  | { readonly ok: true; readonly bwrap: string }
  | { readonly ok: false; readonly reason: Unavailable; readonly detail: string }

type Unavailable = Extract<HostExecution, { kind: 'none' }>['reason']

const PROBE_MS_MAX = 5_000
const DETAIL_CHARS_MAX = 500

/** By absolute path, so that nobody's PATH decides what is trusted. */
export const BWRAP_PATHS: readonly string[] = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap']

/** Root inside a namespace is still root to /proc outside it: what root starts runs as nobody. */
const NOBODY = { uid: 65_534, gid: 65_534 }

export async function probeSandbox(
  machine: Machine = thisMachine(),
  paths = BWRAP_PATHS,
): Promise<SandboxProbe> {
  if (machine.platform !== 'linux') {
    return {
      ok: false,
      reason: 'unsupported-platform',
      detail: `the sandbox needs Linux; this is ${machine.platform}`,
    }
  }
  const bwrap = await firstProgram(machine, paths)
  if (bwrap === undefined) {
    return unavailable(
      `bubblewrap is not installed (looked for ${paths.join(', ')}); install it with: sudo apt-get install -y bubblewrap`,
    )
  }
  const [help, trial] = await Promise.all([
    machine.run(helpOf(bwrap)),
    machine.run(trialOf(bwrap, machine.euid)),
  ])
  const detail = lacking(help, bwrap) ?? (await failing(trial, bwrap, machine))
  return detail === undefined ? { ok: true, bwrap } : unavailable(detail)
}

function unavailable(detail: string): SandboxProbe {
  return { ok: false, reason: 'bwrap-unavailable', detail }
}

async function firstProgram(machine: Machine, paths: readonly string[]): Promise<string | undefined> {
  const found = await Promise.all(paths.map((path) => machine.isProgram(path)))
  return paths.find((_, index) => found[index])
}

// ---- what is run -------------------------------------------------------------------------------------------------

function helpOf(bwrap: string): Command {
  return { program: bwrap, args: ['--help'], timeoutMs: PROBE_MS_MAX }
}

function trialOf(bwrap: string, euid: number): Command {
  const { visible, fed }: SandboxArguments = sandboxArguments({})
  const as = euid === 0 ? { as: NOBODY } : {}
  return { program: bwrap, args: [...visible, '/bin/true'], fed, timeoutMs: PROBE_MS_MAX, ...as }
}

// ---- what came of it -----------------------------------------------------------------------------------------------

function lacking(help: Ended, bwrap: string): string | undefined {
  if (help.is !== 'exited' || help.code !== 0) return `${bwrap} --help does not work: ${account(help)}`
  const known = new Set(`${help.output}\n${help.complaint}`.match(/--[a-z0-9-]+/g))
  const missing = optionNames(sandboxOptions({})).filter((name) => !known.has(name))
  if (missing.length === 0) return undefined
  return `${bwrap} is too old, it does not know ${missing.join(', ')}; bubblewrap 0.8.0 or newer is needed`
}

async function failing(trial: Ended, bwrap: string, machine: Machine): Promise<string | undefined> {
  if (trial.is === 'exited' && trial.code === 0) return undefined
  const cure = await cureFor(trial, bwrap, machine)
  return `${bwrap} cannot make a sandbox: ${account(trial)}${cure === undefined ? '' : `; ${cure}`}`
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

/** One line that a log or a terminal can take. */
function plain(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, DETAIL_CHARS_MAX)
}

// ---- known causes --------------------------------------------------------------------------------------------------

interface Cause {
  readonly file: string
  readonly value: string
  cure(bwrap: string): string
}

/** Switches by which a system keeps user namespaces from ordinary users. */
const CAUSES: readonly Cause[] = [
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    value: '1',
    cure: (bwrap) =>
      `AppArmor keeps user namespaces from programs without a profile; give bubblewrap one: ${apparmorCommand(bwrap)}`,
  },
  {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    value: '0',
    cure: () =>
      'user namespaces are switched off; allow them with: sudo sysctl -w kernel.unprivileged_userns_clone=1',
  },
  {
    file: '/proc/sys/user/max_user_namespaces',
    value: '0',
    cure: () =>
      'user namespaces are switched off; allow them with: sudo sysctl -w user.max_user_namespaces=15000',
  },
]

/** How bubblewrap complains when it is refused a namespace, or refused to use the one it got. */
const REFUSED = /permission|not permitted|namespace|uid map|RTM_NEWADDR|No space left/i

async function cureFor(trial: Ended, bwrap: string, machine: Machine): Promise<string | undefined> {
  if (trial.is !== 'exited' || !REFUSED.test(trial.complaint)) return undefined
  const values = await Promise.all(CAUSES.map(({ file }) => machine.read(file)))
  return CAUSES.find(({ value }, index) => values[index]?.trim() === value)?.cure(bwrap)
}

/** Narrow: it allows this one program its user namespace, and leaves the restriction on for all others. */
function apparmorCommand(bwrap: string): string {
  const profile = `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap ${bwrap} flags=(unconfined) {\\n  userns,\\n}\\n`
  return `printf '${profile}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`
}
