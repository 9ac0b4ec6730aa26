/** Performs GitHub's three merge methods with real git commits. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { git, type Signature, signed, tryGit } from './plumbing.ts'
import type { PullIssue } from './records.ts'

export type MergeMethod = 'merge' | 'squash' | 'rebase'

export interface MergeOrder {
  readonly method: MergeMethod
  readonly title: string | undefined
  readonly message: string | undefined
  readonly by: Signature
}

/** The new commit of the base branch; undefined on a conflict. */
export async function mergedCommit(issue: PullIssue, order: MergeOrder): Promise<string | undefined> {
  if (order.method === 'rebase') return rebased(issue, order.by)
  const { repo, pull } = issue
  const tree = await tryGit(repo.path, ['merge-tree', '--write-tree', pull.baseSha, pull.headSha])
  if (tree.code !== 0) return undefined
  const parents = order.method === 'merge' ? [pull.baseSha, pull.headSha] : [pull.baseSha]
  const flags = parents.flatMap((parent) => ['-p', parent])
  const made = await git(repo.path, ['commit-tree', tree.out.trim(), ...flags], {
    env: signed(order.by),
    input: messageOf(issue, order),
  })
  return made.trim()
}

function messageOf({ number, title, pull }: PullIssue, order: MergeOrder): string {
  const usual = {
    merge: [`Merge pull request #${number} from ${pull.headOwner}/${pull.headRef}`, title],
    squash: [`${title} (#${number})`, ''],
    rebase: ['', ''],
  }[order.method]
  return `${order.title ?? usual[0]}\n\n${order.message ?? usual[1]}`.trim().concat('\n')
}

/** Rebases in a temporary working tree. */
async function rebased({ repo, pull }: PullIssue, by: Signature): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'fake-github-rebase-'))
  const tree = join(folder, 'tree')
  const { GIT_AUTHOR_DATE: _kept, ...env } = signed(by)
  try {
    await git(repo.path, ['worktree', 'add', '--quiet', '--detach', tree, pull.headSha])
    const done = await tryGit(tree, ['rebase', '--quiet', '--force-rebase', pull.baseSha], { env })
    return done.code === 0 ? (await git(tree, ['rev-parse', 'HEAD'])).trim() : undefined
  } finally {
    await tryGit(repo.path, ['worktree', 'remove', '--force', tree])
    await rm(folder, { recursive: true, force: true })
  }
}

/** False when the branch has moved meanwhile. */
export async function moveBranch(path: string, branch: string, to: string, from: string): Promise<boolean> {
  return (await tryGit(path, ['update-ref', `refs/heads/${branch}`, to, from])).code === 0
}
