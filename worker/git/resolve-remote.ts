/**
 * Resolves a job's repositories: validates names, and decides which address gets the token.
 *
 * The host is trusted, but a wrong value in a job must not become a path or a command line option here. Git's own
 * policy (`remote-policy.ts`) checks the address again at each call.
 */
import type { CodeHost } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { CODE_HOST_FACTS, isFolder } from '../../protocol/drivers.ts'
import type { Job, JobCodehost } from '../../protocol/frames.ts'
import { parseGitAddress } from '../../protocol/git-address.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { isRemote } from '../../providers/codehost/remote-name.ts'
import { unreadableRemote } from './git-errors.ts'
import type { RemoteRepository } from './mirror/mirror-cache.ts'

export function resolveRepository(job: Job, codehost: CodeHost): Result<RemoteRepository> {
  const { remote } = job.repo
  const bad = nameProblem(remote, [job.branch])
  if (bad !== undefined) return bad
  if (!isGitBranch(job.base))
    return unreadableRemote(
      remote,
      `${printable(job.base)} is no branch name that git takes; correct defaultBranch`,
    )
  if (job.branch === job.base || job.branch === job.repo.defaultBranch) {
    const cure = `a run never works on ${job.branch} itself; give the ticket another branch name, or correct defaultBranch`
    return { ok: false, refusal: { kind: 'invalid', message: cure, failure: 'configuration' } }
  }
  return resolveAddress(job, codehost, job.repo.cloneUrl)
}

/** The repository of a pull request's branch (`head`) and the one it targets (`base`); they differ for a fork. */
export interface PullRepositories {
  readonly base: RemoteRepository
  readonly head: RemoteRepository
}

export function resolvePullRepositories(job: Job, codehost: CodeHost): Result<PullRepositories> {
  const { pull, repo } = job
  if (pull === undefined) return no('invalid', 'a follow-up needs the pull request that it is for')
  const { headRemote, headBranch, baseBranch } = pull
  const bad = nameProblem(repo.remote, [headBranch, baseBranch]) ?? nameProblem(headRemote, [])
  if (bad !== undefined) return bad
  const base = resolveAddress(job, codehost, repo.cloneUrl)
  if (!base.ok) return base
  if (headRemote.toLowerCase() !== repo.remote.toLowerCase()) {
    const head = resolveAddress({ ...job, repo: { ...repo, remote: headRemote } }, codehost, undefined)
    return head.ok ? yes({ base: base.value, head: head.value }) : head
  }
  if (headBranch === baseBranch || headBranch === repo.defaultBranch) {
    return no(
      'invalid',
      `a follow-up never rewrites ${headBranch} of ${repo.remote}; follow this one up by hand`,
    )
  }
  return yes({ base: base.value, head: base.value })
}

function nameProblem(remote: string, branches: readonly string[]) {
  if (!isRemote(remote))
    return unreadableRemote(printable(remote), 'this is no repository as owner/name; correct remote')
  const invalidBranch = branches.find((name) => !isGitBranch(name))
  return invalidBranch === undefined
    ? undefined
    : no('invalid', `${printable(invalidBranch)} is no branch name that git takes`)
}

/** The code host of jobs that name none. */
export const DEFAULT_CODE_HOST: Pick<JobCodehost, 'driver' | 'apiUrl'> = { driver: 'github' }

/** The token belongs to the code host, so an address on another host is used without it. */
function resolveAddress(
  job: Job,
  codehost: CodeHost,
  cloneUrl: string | undefined,
): Result<RemoteRepository> {
  const hostAddress = codehost.gitAddress(job.repo.remote)
  const address = cloneUrl ?? hostAddress
  const parsed = parseGitAddress(address)
  if (!parsed.ok)
    return unreadableRemote(
      job.repo.remote,
      `cloneUrl: ${printable(withoutUser(address)).slice(0, 200)} ${parsed.error}`,
    )
  const token = job.credentials.codehost
  const { driver } = job.codehost ?? DEFAULT_CODE_HOST
  const asksForToken = parsed.value.protocol !== 'ssh' && isSameOrigin(address, hostAddress)
  return yes({
    name: job.repo.remote,
    remote: { address, ...(asksForToken && token !== undefined ? { token } : {}) },
    ...(asksForToken && !isFolder(CODE_HOST_FACTS[driver]) ? { credentialOf: driver } : {}),
  })
}

/** Whether git accepts the name as a branch and cannot mistake it for an option. */
function isGitBranch(name: string): boolean {
  if (name === '' || name === 'HEAD' || name.length > NAME_CHARS_MAX || name.startsWith('refs/')) return false
  if (/[\0-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|^[-/]|[/.]$/.test(name)) return false
  return name.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'))
}

// ---- addresses -----------------------------------------------------------------------------------------------------

/** The user name sent with a token. Code hosts check only the token. */
export const TOKEN_USER = 'x-access-token'

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/**
 * The address in git's password prompt; undefined if this address must not receive a password: over plain http a token
 * goes only to this machine. `remote-policy.ts` decides whether git contacts an address at all.
 */
export function passwordPromptFor(address: string): string | undefined {
  const found = /^(https?):\/\/(?:[^/@]*@)?([^/@]+)\//.exec(address)
  const [, protocol, host] = found ?? []
  if (protocol === undefined || host === undefined) return undefined
  const isSafe = protocol === 'https' || LOOPBACK.test(host.replace(/:\d+$/, ''))
  return isSafe ? `${protocol}://${TOKEN_USER}@${host}` : undefined
}

/** Whether a token for one address may be sent to the other: another port or protocol is another server. */
export function isSameOrigin(address: string, otherAddress: string): boolean {
  const [origin, otherOrigin] = [originOf(address), originOf(otherAddress)]
  return origin !== undefined && origin === otherOrigin
}

function originOf(address: string): string | undefined {
  const origin = URL.canParse(address) ? new URL(address).origin : 'null'
  return origin === 'null' ? undefined : origin
}

/** Stands for a repository in a folder of the worker's machine, whose path is of no use inside. */
const LOCAL_ORIGIN = '/repository.git'

/** The `origin` of a checkout: it holds no credential and no path of the worker's machine. */
export function originInside(address: string): string {
  return /^(?:\/|file:)/i.test(address) ? LOCAL_ORIGIN : withoutUser(address)
}

/** Removes user and password from an http(s) address. */
export function withoutUser(address: string): string {
  return address.replace(/^(https?:\/\/)[^/@]*@/, '$1')
}
