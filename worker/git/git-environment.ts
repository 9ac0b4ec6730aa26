/**
 * `GitEnvironment` builds the environment variables of git outside the sandbox, `gitCommandLine` its command line.
 *
 * Git configuration can contain commands, so git gets none: no system or user settings, hooks or credential helpers.
 * Only the protocol of the call's address is allowed. A token goes through a file descriptor, because arguments and
 * environment are readable in /proc. The askpass script passes the token on only if git's prompt names the host that
 * the token is for.
 */

import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { isIP, isIPv6 } from 'node:net'
import { join } from 'node:path'
import { quoteWord } from '../../protocol/quote-word.ts'
import type { ProxySettings } from '../../providers/http/http-types.ts'
import type { GitCall, GitOptions, Remote } from './git.ts'
import type { RemoteAccess } from './remote-policy.ts'
import { passwordPromptFor, TOKEN_USER } from './resolve-remote.ts'

export type EnvironmentVariables = Readonly<Record<string, string>>

export const TOKEN_FD = 3
/** Held open by the worker alone; its end tells git's process group that the worker is gone. */
export const LIVENESS_FD = 4
/** The environment variable with the address that may receive the token. Absent: no address may. */
export const ASKER_VARIABLE = 'SWITCHYARD_ASKER'

const PATH = '/usr/local/bin:/usr/bin:/bin'
const SHELL = '/bin/sh'
const SSH_PORT = 22
const SSH_COMMAND =
  'ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o ForwardAgent=no -o PermitLocalCommand=no'

const OWN_SETTINGS = configArguments([
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.askPass=',
  'credential.helper=',
  `credential.username=${TOKEN_USER}`,
  'gc.auto=0',
  // Without these, fetches and `gc` leave loose objects, one file each.
  'fetch.unpackLimit=1',
  'gc.cruftPacks=true',
  'maintenance.auto=false',
  'pack.threads=2',
  'push.recurseSubmodules=no',
  'fetch.recurseSubmodules=no',
  // The policy checked this address, not those that a server names.
  'http.followRedirects=false',
  'http.sslVerify=true',
  'http.lowSpeedLimit=1',
  'http.lowSpeedTime=60',
])
/** The address-space limit also counts mapped packs, so map only small windows of them. */
const untrustedSettings = (memoryMib: number): readonly string[] =>
  configArguments([
    `core.packedGitLimit=${Math.floor(memoryMib / 4)}m`,
    'core.packedGitWindowSize=64m',
    // Larger files are read in pieces, and are not compared.
    'core.bigFileThreshold=128m',
  ])

/** The askpass script: answers git's prompt with a line from the descriptor. Contains no secret. */
const ASKPASS_SCRIPT = `#!/bin/sh
case "$1" in
"Password for '$${ASKER_VARIABLE}': ") IFS= read -r answer <&${TOKEN_FD} && printf '%s\\n' "$answer" ;;
*) exit 1 ;;
esac
`

/**
 * Kills git's whole process group when the worker closes the descriptor or dies. A push that outlives its worker would
 * publish work that the host already considers interrupted.
 */
const LIVENESS_SCRIPT = `(read -r _ <&${LIVENESS_FD}; kill -s KILL 0) ${TOKEN_FD}<&- >/dev/null 2>&1 &`
const EXEC_SCRIPT = `exec "$@" ${LIVENESS_FD}<&-`
/**
 * The shell limits itself, because a program for it would be started in each call. A lower limit that holds already
 * stays. 126: git was not started.
 */
const limitsScript = (kib: number): string =>
  [
    `ulimit -v ${kib} 2>/dev/null || [ "$(ulimit -v)" -le ${kib} ] || exit 126`,
    'ulimit -c 0 || exit 126',
  ].join('\n')
const SCRIPT = [LIVENESS_SCRIPT, EXEC_SCRIPT].join('\n')
const untrustedScript = (memoryMib: number): string =>
  [LIVENESS_SCRIPT, limitsScript(memoryMib * 1024), EXEC_SCRIPT].join('\n')

/**
 * @param access how git reaches the call's remote; absent for a call without one
 * @param memoryMib the address space of an untrusted call
 */
export function gitCommandLine(
  program: string,
  call: GitCall,
  access: RemoteAccess | undefined,
  memoryMib: number,
): string[] {
  const { folder, ownRemote, isUntrusted = false } = call
  const gitDir = folder === undefined ? [] : [`--git-dir=${folder}`]
  const [command = '', ...rest] = call.args
  const args = [
    command,
    // A repository of the worker itself names no command.
    ...(access?.protocol === 'file' && ownRemote === undefined
      ? serviceOptionFor(program, command, access)
      : []),
    ...rest,
  ]
  const settings = isUntrusted ? [...OWN_SETTINGS, ...untrustedSettings(memoryMib)] : OWN_SETTINGS
  const pins = configArguments(pinsOf(access))
  const script = isUntrusted ? untrustedScript(memoryMib) : SCRIPT
  return [SHELL, '-c', script, 'git', program, ...settings, ...pins, ...gitDir, ...args]
}

/** Makes curl connect to the checked addresses, also where the address has a final dot after the name. */
function pinsOf(access: RemoteAccess | undefined): string[] {
  if (access === undefined || access.protocol === 'file' || access.protocol === 'ssh') return []
  const { host, port, addresses = [] } = access
  if (addresses.length === 0) return []
  const list = addresses.map((address) => (isIPv6(address) ? `[${address}]` : address)).join(',')
  return [host, `${host}.`].map((name) => `http.curloptResolve=${name}:${port}:${list}`)
}

/**
 * Makes ssh connect to the checked address and port, and look the host's key up under its name. The name of a private
 * host stays with ssh, because this machine's settings of ssh may give it another address and port.
 */
function sshCommandFor(access: RemoteAccess | undefined): string {
  if (access?.protocol !== 'ssh') return SSH_COMMAND
  const { host, port, addresses: [address] = [] } = access
  if (address === undefined && isIP(host) === 0) return SSH_COMMAND
  const target = `${SSH_COMMAND} -o HostName=${address ?? host} -o Port=${port}`
  if (address === undefined) return target
  const alias = port === SSH_PORT ? host : `[${host}]:${port}`
  return `${target} -o 'HostKeyAlias=${alias}'`
}

type GitEnvironmentOptions = Pick<GitOptions, 'folder' | 'sshAgent' | 'proxies'>

export class GitEnvironment {
  readonly #options: GitEnvironmentOptions
  #askpass: Promise<string> | undefined

  constructor(options: GitEnvironmentOptions) {
    this.#options = options
  }

  /** @param access how git reaches `remote` */
  async variablesFor(
    remote: Remote | undefined,
    access: RemoteAccess | undefined,
  ): Promise<EnvironmentVariables> {
    const base = this.#baseVariables()
    if (access === undefined) return base
    const { sshAgent, proxies } = this.#options
    return {
      ...base,
      GIT_ALLOW_PROTOCOL: access.protocol,
      GIT_SSH_COMMAND: sshCommandFor(access),
      ...(remote === undefined ? {} : await this.#askpassVariables(remote)),
      ...(access.protocol === 'ssh' && sshAgent !== undefined ? { SSH_AUTH_SOCK: sshAgent } : {}),
      ...(/^https?$/.test(access.protocol) && proxies !== undefined ? proxyVariables(proxies) : {}),
    }
  }

  #baseVariables(): EnvironmentVariables {
    return {
      PATH,
      LC_ALL: 'C',
      HOME: this.#options.folder,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_ATTR_NOSYSTEM: '1',
      GIT_TERMINAL_PROMPT: '0',
      GIT_ALLOW_PROTOCOL: 'none',
      // A repository may name a place for its missing objects; git would fetch them from there.
      GIT_NO_LAZY_FETCH: '1',
      GIT_SSH_COMMAND: SSH_COMMAND,
      GIT_SSH_VARIANT: 'ssh',
    }
  }

  async #askpassVariables({ address, token }: Remote): Promise<EnvironmentVariables> {
    const asker = token === undefined ? undefined : passwordPromptFor(address)
    if (asker === undefined) return { GIT_ASKPASS: '/bin/false' }
    return { GIT_ASKPASS: await this.#askpassPath(), [ASKER_VARIABLE]: asker }
  }

  /** Written once per process, so that a script of an older version is never used. */
  #askpassPath(): Promise<string> {
    this.#askpass ??= writeAskpass(this.#options.folder)
    // A full disk is a temporary failure: the next call tries again.
    this.#askpass.catch(() => {
      this.#askpass = undefined
    })
    return this.#askpass
  }
}

/** Addresses of this machine never go through the proxy. */
const LOOPBACK_HOSTS = 'localhost,127.0.0.1,::1'

function proxyVariables({ http, https, noProxy: except }: ProxySettings): EnvironmentVariables {
  return {
    http_proxy: http,
    https_proxy: https,
    no_proxy: except === '' ? LOOPBACK_HOSTS : `${except},${LOOPBACK_HOSTS}`,
  }
}

async function writeAskpass(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, 'answer')
  await writeFile(path, ASKPASS_SCRIPT, { mode: 0o700 })
  await chmod(path, 0o700)
  return path
}

function configArguments(settings: readonly string[]): readonly string[] {
  return settings.flatMap((setting) => ['-c', setting])
}

// ---- the other side of a local transport ---------------------------------------------------------------------------

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

const SERVICE_SETTINGS = [
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
  `exec "$1" ${SERVICE_SETTINGS.map((setting) => `-c ${setting}`).join(' ')} "$0" "$2"`,
].join('\n')

/**
 * Builds the command that serves a local repository to git: `git upload-pack` or `git receive-pack` without commands
 * of that repository.
 *
 * Git starts the other side of a local transport as a second process, and takes the settings of the command line away
 * from it. So the other side would obey the repository: its hooks, and each setting that is a command. This command
 * line outranks the repository's configuration, which cannot be left out. Settings that git obeys only in protected
 * configuration (`uploadpack.packObjectsHook`) find none.
 */
function serviceOptionFor(program: string, command: string, { gitDir }: LocalAccess): string[] {
  const [option, service] = SERVICES[command] ?? []
  // A command of another name would start the other side without this protection.
  if (option === undefined || service === undefined)
    throw new Error(`git ${command} has no service for a local remote`)
  const words = ['/bin/sh', '-c', SERVE_SCRIPT, service, program, gitDir]
  return [`${option}=${words.map(quoteWord).join(' ')}`]
}
