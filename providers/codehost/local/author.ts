/**
 * Reads the git identity of the person who uses the local code host.
 *
 * The local code host has no accounts, so a person acts under the name and e-mail address that git would commit with. A
 * pull request that the person opened by hand under that name is their own. Without a configured name the identity is
 * `you`. Pull requests that switchyard opens have another author, so the person may approve them.
 *
 * Only `user.name` and `user.email` are read from the person's git configuration.
 */
import { NAME_CHARS_MAX } from '../../../protocol/limits.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { GitIdentity } from './git-merge.ts'
import { type RunGit, runGitForText } from './git-run.ts'

const DEFAULT_IDENTITY: GitIdentity = { name: 'you', email: 'you@localhost' }
/** Git strips these characters from a name, and refuses to commit with an empty one. */
const UNUSABLE_NAME = /^[\s.,:;<>"\\']*$/

/** `home`: environment variables that locate the person's git configuration. */
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
  // The last value of a key wins, as in git.
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
