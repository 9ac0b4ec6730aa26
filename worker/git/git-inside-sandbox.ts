/**
 * Git's configuration inside a sandbox, and the common beginning of the worker's git scripts.
 *
 * Scripts are constants: variable values are positional parameters and are never parsed as shell code.
 */
import { lastLines } from './git-errors.ts'
import type { SandboxCommandResult } from './git-ports.ts'

/** The author of commits that neither a person nor an agent made. */
export const COMMITTER = { name: 'switchyard', email: 'switchyard@localhost' } as const

/**
 * The content of /etc/gitconfig inside, read-only. `safe.directory`: mounted folders have an unknown owner inside, so
 * git would refuse them; the worker mounted all of them itself.
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

/** Mount points while a script of the worker runs: the branch copy, the bundle of the head, the exchange folder. */
export const CACHE_INSIDE = '/cache'
export const HEAD_BUNDLE_INSIDE = '/head.bundle'
export const EXCHANGE_INSIDE = '/exchange'
/** The ref in the bundle of the head. */
export const HEAD_REF = 'refs/switchyard/head'

/** Excludes the agent's git settings, as far as git allows. */
const SCRIPT_PREAMBLE = `set -eu
umask 022
export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_LFS_SKIP_SMUDGE=1 GIT_EDITOR=true GIT_OPTIONAL_LOCKS=0
export GIT_CONFIG_GLOBAL=/tmp/.switchyard-gitconfig
printf '[safe]\\n\\tdirectory = *\\n' > "$GIT_CONFIG_GLOBAL"
`

export function scriptCommand(script: string, ...parameters: readonly string[]): readonly string[] {
  return ['/bin/sh', '-c', `${SCRIPT_PREAMBLE}${script}`, 'switchyard', ...parameters]
}

/** Why the command failed; undefined: it succeeded. */
export function failureOf({
  code,
  output,
  startFailure,
  timedOutMinutes,
}: SandboxCommandResult): string | undefined {
  if (startFailure !== undefined) return `no sandbox could be made: ${startFailure}`
  if (code === 0) return undefined
  if (timedOutMinutes !== undefined) return `it took longer than ${timedOutMinutes} minutes and was killed`
  return lastLines(output) || (code === undefined ? 'it was ended by a signal' : `exit code ${code}`)
}
