/**
 * What git sees of the world outside: next to nothing.
 *
 * Git reads commands from configuration, so it gets none: no system's, no user's, no hook, no credential helper; and
 * only the one way out that its address asks for.
 *
 * A token goes through a descriptor, never through arguments, addresses, files or the environment: what git starts
 * inherits the environment, and keeps it readable in /proc for as long as it runs. Our answer to git's question for
 * a password reads one line from the descriptor, and only when the question names the place that the token is for: a
 * code host that redirects to another place gets nothing. What a descriptor's socket holds nobody else can open.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Result, yes } from '../../core/result.ts'
import type { ProxySettings } from '../../providers/http/http.ts'
import { passwordPromptFor, protocolOf, TOKEN_USER } from './address.ts'
import type { GitCall, GitOptions, Remote } from './git.ts'

export type EnvironmentVariables = Readonly<Record<string, string>>

export const TOKEN_FD = 3
/** Held open by the worker, and by nobody else. */
export const LIVENESS_FD = 4
/** Names the place that the token is for. Absent: there is nobody to give it to. */
export const ASKER_VARIABLE = 'SWITCHYARD_ASKER'

const PATH = '/usr/local/bin:/usr/bin:/bin'
const PRLIMIT = '/usr/bin/prlimit'
const SHELL = '/bin/sh'
const UNTRUSTED_MEMORY_BYTES_MAX = 4 * 1024 ** 3
const SSH_COMMAND =
  'ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o ForwardAgent=no -o PermitLocalCommand=no'

const SETTINGS = configArguments([
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.askPass=',
  'credential.helper=',
  `credential.username=${TOKEN_USER}`,
  'gc.auto=0',
  'maintenance.auto=false',
  'pack.threads=2',
  'push.recurseSubmodules=no',
  'fetch.recurseSubmodules=no',
  'http.lowSpeedLimit=1',
  'http.lowSpeedTime=60',
])
/** What is only mapped counts too, and a repository may be larger than that. */
const UNTRUSTED_SETTINGS = configArguments(['core.packedGitLimit=1g', 'core.packedGitWindowSize=64m'])

/** Answers git's question; nothing secret stands in it. */
const ASKPASS_SCRIPT = `#!/bin/sh
case "$1" in
"Password for '$${ASKER_VARIABLE}': ") IFS= read -r answer <&${TOKEN_FD} && printf '%s\\n' "$answer" ;;
*) exit 1 ;;
esac
`

/**
 * A push that outlived its worker would bring out work that is being told as interrupted: when the leash is let go of,
 * however that comes about, the whole group is killed.
 */
const LIVENESS_SCRIPT = [
  `(read -r _ <&${LIVENESS_FD}; kill -s KILL 0) ${TOKEN_FD}<&- >/dev/null 2>&1 &`,
  `exec "$@" ${LIVENESS_FD}<&-`,
].join('\n')

export function gitCommandLine(program: string, { folder, isUntrusted = false, args }: GitCall): string[] {
  const gitDir = folder === undefined ? [] : [`--git-dir=${folder}`]
  const limits = isUntrusted ? [PRLIMIT, `--as=${UNTRUSTED_MEMORY_BYTES_MAX}`, '--core=0:0', '--'] : []
  const settings = isUntrusted ? [...SETTINGS, ...UNTRUSTED_SETTINGS] : SETTINGS
  return [SHELL, '-c', LIVENESS_SCRIPT, 'git', ...limits, program, ...settings, ...gitDir, ...args]
}

type GitEnvironmentOptions = Pick<GitOptions, 'folder' | 'sshAgent' | 'proxies'>

export class GitEnvironment {
  readonly #options: GitEnvironmentOptions
  #askpass: Promise<string> | undefined

  constructor(options: GitEnvironmentOptions) {
    this.#options = options
  }

  async variablesFor(remote: Remote | undefined): Promise<Result<EnvironmentVariables>> {
    const base = this.#baseVariables()
    if (remote === undefined) return yes(base)
    const protocol = protocolOf(remote.address)
    if (!protocol.ok) return protocol
    const { sshAgent, proxies } = this.#options
    return yes({
      ...base,
      GIT_ALLOW_PROTOCOL: protocol.value,
      ...(await this.#askpassVariables(remote)),
      ...(protocol.value === 'ssh' && sshAgent !== undefined ? { SSH_AUTH_SOCK: sshAgent } : {}),
      ...(/^https?$/.test(protocol.value) && proxies !== undefined ? proxyVariables(proxies) : {}),
    })
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
      GIT_SSH_COMMAND: SSH_COMMAND,
      GIT_SSH_VARIANT: 'ssh',
    }
  }

  async #askpassVariables({ address, token }: Remote): Promise<EnvironmentVariables> {
    const asker = token === undefined ? undefined : passwordPromptFor(address)
    if (asker === undefined) return { GIT_ASKPASS: '/bin/false' }
    return { GIT_ASKPASS: await this.#askpassPath(), [ASKER_VARIABLE]: asker }
  }

  /** Written anew in each life, so that what an older version left does not answer. */
  #askpassPath(): Promise<string> {
    this.#askpass ??= writeAskpass(this.#options.folder)
    // A full disk passes; the next call tries again.
    this.#askpass.catch(() => {
      this.#askpass = undefined
    })
    return this.#askpass
  }
}

/** What is on this machine is never asked for elsewhere. */
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
