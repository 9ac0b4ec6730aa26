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
import { askerAt, USER, wayTo } from './address.ts'
import type { GitCall, GitParts, Remote } from './git.ts'

export type Environment = Readonly<Record<string, string>>

export const TOKEN_FD = 3
/** Held open by the worker, and by nobody else. */
export const LEASH_FD = 4
/** Names the place that the token is for. Absent: there is nobody to give it to. */
export const ASKER = 'SWITCHYARD_ASKER'

const PATH = '/usr/local/bin:/usr/bin:/bin'
const PRLIMIT = '/usr/bin/prlimit'
const SHELL = '/bin/sh'
const WARY_BYTES_MAX = 4 * 1024 ** 3
const SSH =
  'ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o ForwardAgent=no -o PermitLocalCommand=no'

const SETTINGS = configured([
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.askPass=',
  'credential.helper=',
  `credential.username=${USER}`,
  'gc.auto=0',
  'maintenance.auto=false',
  'pack.threads=2',
  'push.recurseSubmodules=no',
  'fetch.recurseSubmodules=no',
  'http.lowSpeedLimit=1',
  'http.lowSpeedTime=60',
])
/** What is only mapped counts too, and a repository may be larger than that. */
const WARY_SETTINGS = configured(['core.packedGitLimit=1g', 'core.packedGitWindowSize=64m'])

/** Answers git's question; nothing secret stands in it. */
const ASKPASS = `#!/bin/sh
case "$1" in
"Password for '$${ASKER}': ") IFS= read -r answer <&${TOKEN_FD} && printf '%s\\n' "$answer" ;;
*) exit 1 ;;
esac
`

/**
 * A push that outlived its worker would bring out work that is being told as interrupted: when the leash is let go of,
 * however that comes about, the whole group is killed.
 */
const LEASHED = [
  `(read -r _ <&${LEASH_FD}; kill -s KILL 0) ${TOKEN_FD}<&- >/dev/null 2>&1 &`,
  `exec "$@" ${LEASH_FD}<&-`,
].join('\n')

export function commandLine(program: string, { folder, wary = false, args }: GitCall): string[] {
  const where = folder === undefined ? [] : [`--git-dir=${folder}`]
  const limits = wary ? [PRLIMIT, `--as=${WARY_BYTES_MAX}`, '--core=0:0', '--'] : []
  const settings = wary ? [...SETTINGS, ...WARY_SETTINGS] : SETTINGS
  return [SHELL, '-c', LEASHED, 'git', ...limits, program, ...settings, ...where, ...args]
}

type SurroundingParts = Pick<GitParts, 'folder' | 'sshAgent' | 'proxies'>

export class Surroundings {
  readonly #parts: SurroundingParts
  #askpass: Promise<string> | undefined

  constructor(parts: SurroundingParts) {
    this.#parts = parts
  }

  async environment(remote: Remote | undefined): Promise<Result<Environment>> {
    const bare = this.#bare()
    if (remote === undefined) return yes(bare)
    const way = wayTo(remote.address)
    if (!way.ok) return way
    const { sshAgent, proxies } = this.#parts
    return yes({
      ...bare,
      GIT_ALLOW_PROTOCOL: way.value,
      ...(await this.#asking(remote)),
      ...(way.value === 'ssh' && sshAgent !== undefined ? { SSH_AUTH_SOCK: sshAgent } : {}),
      ...(/^https?$/.test(way.value) && proxies !== undefined ? around(proxies) : {}),
    })
  }

  #bare(): Environment {
    return {
      PATH,
      LC_ALL: 'C',
      HOME: this.#parts.folder,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_ATTR_NOSYSTEM: '1',
      GIT_TERMINAL_PROMPT: '0',
      GIT_ALLOW_PROTOCOL: 'none',
      GIT_SSH_COMMAND: SSH,
      GIT_SSH_VARIANT: 'ssh',
    }
  }

  async #asking({ address, token }: Remote): Promise<Environment> {
    const asker = token === undefined ? undefined : askerAt(address)
    if (asker === undefined) return { GIT_ASKPASS: '/bin/false' }
    return { GIT_ASKPASS: await this.#askpassPath(), [ASKER]: asker }
  }

  /** Written anew in each life, so that what an older version left does not answer. */
  #askpassPath(): Promise<string> {
    this.#askpass ??= writeAskpass(this.#parts.folder)
    // A full disk passes; the next call tries again.
    this.#askpass.catch(() => {
      this.#askpass = undefined
    })
    return this.#askpass
  }
}

/** What is on this machine is never asked for elsewhere. */
const OWN = 'localhost,127.0.0.1,::1'

function around({ http, https, noProxy: except }: ProxySettings): Environment {
  return { http_proxy: http, https_proxy: https, no_proxy: except === '' ? OWN : `${except},${OWN}` }
}

async function writeAskpass(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, 'answer')
  await writeFile(path, ASKPASS, { mode: 0o700 })
  await chmod(path, 0o700)
  return path
}

function configured(settings: readonly string[]): readonly string[] {
  return settings.flatMap((setting) => ['-c', setting])
}
