/**
 * Why bubblewrap could not make a sandbox, where the cause is a known one, and the command that cures it.
 */
import type { Machine } from './local-machine.ts'

interface Cause {
  readonly file: string
  readonly value: string
  cure(bwrap: string): string
}

const COMPLAINT_CHARS_MAX = 500

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
/** What a folder that the sandbox's user can't get to looks like from its side. */
const UNREACHED = /Can't find source path (\S+): Permission denied/

export async function cureFor(
  complaint: string,
  bwrap: string,
  machine: Machine,
): Promise<string | undefined> {
  const [, unreached] = UNREACHED.exec(complaint) ?? []
  if (unreached !== undefined) {
    return `the user that sandboxes run as must be able to pass every folder above it; try: namei -l ${unreached}`
  }
  if (!REFUSED.test(complaint)) return undefined
  const values = await Promise.all(CAUSES.map(({ file }) => machine.read(file)))
  return CAUSES.find(({ value }, index) => values[index]?.trim() === value)?.cure(bwrap)
}

/** One line that a log or a terminal can take. */
export function plain(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, COMPLAINT_CHARS_MAX)
}

/** Narrow: it allows this one program its user namespace, and leaves the restriction on for all others. */
function apparmorCommand(bwrap: string): string {
  const profile = `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap ${bwrap} flags=(unconfined) {\\n  userns,\\n}\\n`
  return `printf '${profile}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`
}
