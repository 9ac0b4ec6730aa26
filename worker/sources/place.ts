/**
 * Where a job's repository is, and with which token: what the job says, checked.
 *
 * A job comes from the host, which is believed, yet a slip there must not become a path or an option here.
 */
import type { CodeHost } from '../../core/ports.ts'
import { type Answer, no, yes } from '../../core/refusal.ts'
import { printable } from '../../protocol/explain.ts'
import type { Job } from '../../protocol/frames.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { isRemote } from '../../providers/codehost/remote-name.ts'
import { isSameHost, wayTo } from './address.ts'
import type { Wanted } from './cache.ts'

export function placeOf(job: Job, codehost: CodeHost): Answer<Wanted> {
  const { remote, cloneUrl } = job.repo
  if (!isRemote(remote))
    return no('invalid', `${printable(remote)} is no repository as owner/name; correct remote`)
  const fork = job.pull?.headRemote
  if (fork !== undefined && fork.toLowerCase() !== remote.toLowerCase()) {
    return no(
      'invalid',
      `the pull request comes from ${printable(fork)}, and a worker pushes to ${remote} only; continue it by hand`,
    )
  }
  const badName = [job.branch, job.base].find((name) => !isGitBranch(name))
  if (badName !== undefined) return no('invalid', `${printable(badName)} is no branch name that git takes`)
  if (job.branch === job.base || job.branch === job.repo.defaultBranch) {
    return no('invalid', `a run never works on ${job.branch} itself; give the ticket another branch name`)
  }
  return addressOf(job, codehost, cloneUrl)
}

/** The token is for the code host; an address that leads to another machine is used without. */
function addressOf(job: Job, codehost: CodeHost, cloneUrl: string | undefined): Answer<Wanted> {
  const own = codehost.gitAddress(job.repo.remote)
  const address = cloneUrl ?? own
  const way = wayTo(address)
  if (!way.ok) return way
  const token = job.credentials.codehost
  const mayShow = token !== undefined && isSameHost(address, own)
  return yes({ name: job.repo.remote, remote: { address, ...(mayShow ? { token } : {}) } })
}

/** What git takes as a branch, less what could be read as an option. */
function isGitBranch(name: string): boolean {
  if (name === '' || name === 'HEAD' || name.length > NAME_CHARS_MAX || name.startsWith('refs/')) return false
  if (/[\0-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|^[-/]|[/.]$/.test(name)) return false
  return name.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'))
}
