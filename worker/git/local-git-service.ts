/**
 * Builds the command that serves a local repository to git: `git upload-pack` or `git receive-pack` without commands
 * of that repository.
 *
 * Git starts the other side of a local transport as a second process, and takes the settings of the command line away
 * from it. So the other side would obey the repository: its hooks, and each setting that is a command. This command
 * line outranks the repository's configuration, which cannot be left out. Settings that git obeys only in protected
 * configuration (`uploadpack.packObjectsHook`) find none, see `git-environment.ts`.
 */
import type { RemoteAccess } from './remote-policy.ts'

type LocalAccess = Extract<RemoteAccess, { protocol: 'file' }>

/** The option of each git command that contacts a remote, and the service that it asks for. */
const SERVICES: Readonly<Record<string, readonly [option: string, service: string]>> = {
  fetch: ['--upload-pack', 'upload-pack'],
  'ls-remote': ['--upload-pack', 'upload-pack'],
  push: ['--receive-pack', 'receive-pack'],
}

/** Without effect, and successful. */
const NOTHING = '/bin/true'
const REFUSING = '/bin/false'

const SETTINGS = [
  'core.hooksPath=/dev/null',
  `core.alternateRefsCommand=${NOTHING}`,
  'core.fsmonitor=false',
  `core.sshCommand=${REFUSING}`,
  `core.gitProxy=${REFUSING}`,
  `core.askPass=${REFUSING}`,
  `core.pager=${NOTHING}`,
  `core.editor=${REFUSING}`,
  'credential.helper=',
  `diff.external=${REFUSING}`,
  `gpg.program=${REFUSING}`,
  `gpg.ssh.program=${REFUSING}`,
  `gpg.x509.program=${REFUSING}`,
  // A push updates no working tree: filters, fsmonitor and hooks would run in it.
  'receive.denyCurrentBranch=refuse',
  'receive.autogc=false',
  'gc.auto=0',
  'maintenance.auto=false',
]

/**
 * The last argument, the path as git knows it, is ignored: the policy found the repository (`$2`) behind it. Since git
 * 2.54 the configuration can define hooks by name (`hook.NAME.command`), which no setting turns off together.
 */
const SERVE_SCRIPT = [
  'export GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1',
  `if "$1" --git-dir="$2" config --name-only --get-regexp "^hook[.]" >/dev/null; then`,
  '  echo "fatal: the repository configures hooks by name" >&2; exit 128',
  'fi',
  `exec "$1" ${SETTINGS.map((setting) => `-c ${setting}`).join(' ')} "$0" "$2"`,
].join('\n')

export function serviceOptionFor(program: string, command: string, { gitDir }: LocalAccess): string[] {
  const [option, service] = SERVICES[command] ?? []
  // A command of another name would start the other side without this protection.
  if (option === undefined || service === undefined)
    throw new Error(`git ${command} has no service for a local remote`)
  const words = ['/bin/sh', '-c', SERVE_SCRIPT, service, program, gitDir]
  return [`${option}=${words.map(quoteForShell).join(' ')}`]
}

function quoteForShell(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`
}
