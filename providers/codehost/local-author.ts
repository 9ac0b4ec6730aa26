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
import type { Person } from './git-merge.ts'
import { gitText, type RunGit } from './git-run.ts'

const NOBODY: Person = { name: 'you', email: 'you@localhost' }
/** Git makes nothing of what consists of these, and refuses to commit in its name. */
const CRUD = /^[\s.,:;<>"\\']*$/

/** `home`: where their configuration is. */
export async function personAt(
  run: RunGit,
  home: Readonly<Record<string, string | undefined>>,
): Promise<Person> {
  const { HOME, XDG_CONFIG_HOME } = home
  if (HOME === undefined) return NOBODY
  const shown = await gitText(run, {
    args: ['config', '--global', '--includes', '-z', '--get-regexp', String.raw`^user\.(name|email)$`],
    env: {
      HOME,
      GIT_CONFIG_GLOBAL: undefined,
      ...(XDG_CONFIG_HOME === undefined ? {} : { XDG_CONFIG_HOME }),
    },
  })
  if (!shown.ok) return NOBODY
  // The last one counts, as for git.
  const values = new Map(shown.value.split('\0').map(keyAndValue))
  return {
    name: clean(values.get('user.name')) ?? NOBODY.name,
    email: clean(values.get('user.email')) ?? NOBODY.email,
  }
}

function keyAndValue(entry: string): [string, string] {
  const end = entry.indexOf('\n')
  return [entry.slice(0, end), entry.slice(end + 1)]
}

function clean(value: string | undefined): string | undefined {
  const name = printable(value ?? '')
    .replace(/[<>]/g, '')
    .trim()
    .slice(0, NAME_CHARS_MAX)
  return CRUD.test(name) ? undefined : name
}
