/**
 * Finds the command that fixes a failed bubblewrap start, when the cause is a known one.
 */
import type { SandboxFault } from '../driver.ts'
import type { LocalMachine } from '../local-machine.ts'
import { findContainerFault } from './container-faults.ts'

interface KnownCause {
  readonly file: string
  readonly value: string
  readonly problem: string
  readonly advice: string
  cure(bwrap: string): string
}

/** A sentence that helps, and its command apart where the cause is a switch of the kernel. */
export interface KnownFix {
  readonly text: string
  readonly fault?: SandboxFault
}

const MESSAGE_CHARS_MAX = 500
const SWITCHED_OFF = 'user namespaces are switched off'
const ALLOW = 'allow them with'

/** Kernel switches that deny user namespaces to ordinary users. */
const KNOWN_CAUSES: readonly KnownCause[] = [
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    value: '1',
    problem: 'AppArmor denies user namespaces to programs without a profile',
    advice: 'give bubblewrap one',
    cure: apparmorCommand,
  },
  {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    value: '0',
    problem: SWITCHED_OFF,
    advice: ALLOW,
    cure: () => 'sudo sysctl -w kernel.unprivileged_userns_clone=1',
  },
  {
    file: '/proc/sys/user/max_user_namespaces',
    value: '0',
    problem: SWITCHED_OFF,
    advice: ALLOW,
    cure: () => 'sudo sysctl -w user.max_user_namespaces=15000',
  },
]

/** bubblewrap's messages when it may not create a namespace, or not use the one it created. */
const NAMESPACE_REFUSED = /permission|not permitted|namespace|uid map|RTM_NEWADDR|No space left/i
/** bubblewrap's message for a folder that the sandbox's user cannot reach. */
const SOURCE_UNREACHABLE = /Can't find source path (\S+): Permission denied/

export async function findFix(
  errorText: string,
  bwrap: string,
  machine: LocalMachine,
): Promise<KnownFix | undefined> {
  const [, unreachable] = SOURCE_UNREACHABLE.exec(errorText) ?? []
  if (unreachable !== undefined) {
    return {
      text: `the user that sandboxes run as needs execute permission on every folder above it; check: namei -l ${unreachable}`,
    }
  }
  if (!NAMESPACE_REFUSED.test(errorText)) return findContainerFix(errorText, machine)
  const values = await Promise.all(KNOWN_CAUSES.map(({ file }) => machine.read(file)))
  const found = KNOWN_CAUSES.find(({ value }, index) => values[index]?.trim() === value)
  if (found === undefined) return findContainerFix(errorText, machine)
  const { problem, advice } = found
  const cure = found.cure(bwrap)
  return { text: `${problem}; ${advice}: ${cure}`, fault: { of: 'user-namespaces', problem, cure } }
}

async function findContainerFix(errorText: string, machine: LocalMachine): Promise<KnownFix | undefined> {
  const fault = await findContainerFault(errorText, machine)
  return fault === undefined ? undefined : { text: `${fault.problem}; ${fault.cure}`, fault }
}

/** Makes a bounded single line without control characters, safe for a log or a terminal. */
export function toPlainLine(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, MESSAGE_CHARS_MAX)
}

/** Allows user namespaces for this one program and leaves the restriction in place for all others. */
function apparmorCommand(bwrap: string): string {
  const profile = `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap ${bwrap} flags=(unconfined) {\\n  userns,\\n}\\n`
  return `printf '${profile}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`
}
