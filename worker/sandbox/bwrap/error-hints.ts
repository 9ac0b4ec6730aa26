/**
 * Finds the command that fixes a failed bubblewrap start, when the cause is a known one.
 */
import type { LocalMachine } from '../local-machine.ts'

interface KnownCause {
  readonly file: string
  readonly value: string
  fix(bwrap: string): string
}

const MESSAGE_CHARS_MAX = 500

/** Kernel switches that deny user namespaces to ordinary users. */
const KNOWN_CAUSES: readonly KnownCause[] = [
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    value: '1',
    fix: (bwrap) =>
      `AppArmor denies user namespaces to programs without a profile; give bubblewrap one: ${apparmorCommand(bwrap)}`,
  },
  {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    value: '0',
    fix: () =>
      'user namespaces are switched off; allow them with: sudo sysctl -w kernel.unprivileged_userns_clone=1',
  },
  {
    file: '/proc/sys/user/max_user_namespaces',
    value: '0',
    fix: () =>
      'user namespaces are switched off; allow them with: sudo sysctl -w user.max_user_namespaces=15000',
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
): Promise<string | undefined> {
  const [, unreachable] = SOURCE_UNREACHABLE.exec(errorText) ?? []
  if (unreachable !== undefined) {
    return `the user that sandboxes run as needs execute permission on every folder above it; check: namei -l ${unreachable}`
  }
  if (!NAMESPACE_REFUSED.test(errorText)) return undefined
  const values = await Promise.all(KNOWN_CAUSES.map(({ file }) => machine.read(file)))
  return KNOWN_CAUSES.find(({ value }, index) => values[index]?.trim() === value)?.fix(bwrap)
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
