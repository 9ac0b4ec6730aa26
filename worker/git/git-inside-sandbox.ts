/**
 * What git inside a sandbox is told, and how the worker's own short scripts begin there.
 *
 * The scripts are constants; whatever varies comes as a positional parameter and is never read as a script.
 */

import { lastLines } from './git-errors.ts'
import type { SandboxCommandResult } from './git-ports.ts'

/** Who made what no person and no agent has signed. */
export const COMMITTER = { name: 'switchyard', email: 'switchyard@localhost' } as const

/**
 * For /etc/gitconfig inside, read-only. What a sandbox shows belongs to nobody there, so git would refuse it; all of it
 * was put there by the worker.
 */
export const GITCONFIG_TEXT = `[safe]
	directory = *
[user]
	name = ${COMMITTER.name}
	email = ${COMMITTER.email}
[init]
	defaultBranch = main
[advice]
	detachedHead = false
`

/** Where the repository's copy, and the way out, appear inside while a script of ours runs. */
export const CACHE_INSIDE = '/cache'
export const EXCHANGE_INSIDE = '/exchange'

/** Neither the agent's own settings nor the repository's hooks take part, as far as they can be left out. */
const SCRIPT_PREAMBLE = `set -eu
umask 022
export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_LFS_SKIP_SMUDGE=1 GIT_EDITOR=true GIT_OPTIONAL_LOCKS=0
export GIT_CONFIG_GLOBAL=/tmp/.switchyard-gitconfig
printf '[safe]\\n\\tdirectory = *\\n' > "$GIT_CONFIG_GLOBAL"
`

export function scriptCommand(script: string, ...parameters: readonly string[]): readonly string[] {
  return ['/bin/sh', '-c', `${SCRIPT_PREAMBLE}${script}`, 'switchyard', ...parameters]
}

/** undefined: it went well. */
export function failureOf({ code, output, startFailure }: SandboxCommandResult): string | undefined {
  if (startFailure !== undefined) return `no sandbox could be made: ${startFailure}`
  if (code === 0) return undefined
  return lastLines(output) || (code === undefined ? 'it was ended by a signal' : `exit code ${code}`)
}
