/** Says why a target machine can't make sandboxes, with the command that cures it. */
import { isPlainPath } from './installed-files.ts'

/** The facts that the check of a machine has printed, by their keys. */
export type MachineReport = ReadonlyMap<string, string>

/** The reason why a machine can't be a worker. */
export interface MachineProblem {
  /** For the line of the step. */
  readonly finding: string
  /** A sentence about the machine, which its name begins. */
  readonly sentence: string
  /** A command or deed, on the machine. */
  readonly cure: string
}

export function sandboxProblem(report: MachineReport): MachineProblem | undefined {
  const result = report.get('sandbox') ?? ''
  if (result === 'works') return undefined
  const finding = result.startsWith('bwrap') ? result : `bwrap: ${result}`
  const { sentence, cure } = sandboxCure(report)
  return { finding, sentence: `can't make sandboxes: ${sentence}`, cure }
}

function sandboxCure(report: MachineReport): { readonly sentence: string; readonly cure: string } {
  const off = 'user namespaces are switched off'
  if (report.get('kernel/apparmor_restrict_unprivileged_userns') === '1')
    return {
      sentence: 'AppArmor denies user namespaces to programs without a profile',
      cure: apparmorCommand(report.get('bwrap') ?? ''),
    }
  if (report.get('kernel/unprivileged_userns_clone') === '0')
    return { sentence: off, cure: 'sudo sysctl -w kernel.unprivileged_userns_clone=1' }
  if (report.get('user/max_user_namespaces') === '0')
    return { sentence: off, cure: 'sudo sysctl -w user.max_user_namespaces=15000' }
  return {
    sentence: 'bubblewrap was refused by the system',
    cure: 'allow user namespaces and an unmasked /proc; in a container both are settings of the container',
  }
}

/** The worker's own advice, for the same cause. */
function apparmorCommand(bwrap: string): string {
  const path = isPlainPath(bwrap) ? bwrap : '/usr/bin/bwrap'
  const profile = `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap ${path} flags=(unconfined) {\\n  userns,\\n}\\n`
  return `printf '${profile}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`
}
