/**
 * In whose name a person acts on the local code host.
 *
 * It has no accounts, but whoever uses it uses git: the name and address are those that git would put under their own
 * commits, and a pull request that they opened by hand in that name is their own. Without one they are `you`, which is
 * what they read. What switchyard opens is switchyard's, so they may approve it.
 *
 * Of the person's configuration these two values are read, and nothing else of it is ever in force.
 */

import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { GitIdentity } from './git-merge.ts'
import { type RunGit, runGitForText } from './git-run.ts'

const DEFAULT_IDENTITY: GitIdentity = { name: 'you', email: 'you@localhost' }
/** Git makes nothing of what consists of these, and refuses to commit in its name. */
const UNUSABLE_NAME = /^[\s.,:;<>"\\']*$/

/** `home`: where their configuration is. */
export async function readGitIdentity(
  run: RunGit,
  home: Readonly<Record<string, string | undefined>>,
): Promise<GitIdentity> {
  const { HOME, XDG_CONFIG_HOME } = home
  if (HOME === undefined) return DEFAULT_IDENTITY
  const settings = await runGitForText(run, {
    args: ['config', '--global', '--includes', '-z', '--get-regexp', String.raw`^user\.(name|email)$`],
    env: {
      HOME,
      GIT_CONFIG_GLOBAL: undefined,
      ...(XDG_CONFIG_HOME === undefined ? {} : { XDG_CONFIG_HOME }),
    },
  })
  if (!settings.ok) return DEFAULT_IDENTITY
  // The last one counts, as for git.
  const values = new Map(settings.value.split('\0').map(splitKeyAndValue))
  return {
    name: cleanName(values.get('user.name')) ?? DEFAULT_IDENTITY.name,
    email: cleanName(values.get('user.email')) ?? DEFAULT_IDENTITY.email,
  }
}

function splitKeyAndValue(entry: string): [string, string] {
  const end = entry.indexOf('\n')
  return [entry.slice(0, end), entry.slice(end + 1)]
}

function cleanName(value: string | undefined): string | undefined {
  const name = printable(value ?? '')
    .replace(/[<>]/g, '')
    .trim()
    .slice(0, NAME_CHARS_MAX)
  return UNUSABLE_NAME.test(name) ? undefined : name
}
