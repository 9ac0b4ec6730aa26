/** Lists the repositories of the local code host: every bare repository at `owner/name.git` below its folder. */
import { constants } from 'node:fs'
import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../../core/result.ts'
import { CODEHOST_REPOS_MAX, NAME_CHARS_MAX } from '../../../protocol/limits.ts'
import type { CodehostRepo } from '../../../protocol/pulls.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { isRemote } from '../remote-name.ts'
import { branchRef, instantFromMs, isRepository } from './git-repository.ts'
import { type RunGit, runGitForText } from './git-run.ts'

const DESCRIPTION_BYTES_MAX = 4_096
/** Default text that `git init` writes. */
const DEFAULT_DESCRIPTION = /^Unnamed repository/

/** Most recently pushed first. Unreadable repositories are left out. */
export async function listLocalRepos(
  path: string,
  gitIn: (folder: string) => RunGit,
  now: number,
): Promise<Result<CodehostRepo[]>> {
  const names = await listRepoNames(path)
  if (!names.ok) return names
  const read = await Promise.all(
    names.value.slice(0, CODEHOST_REPOS_MAX).map(async (fullName) => {
      const folder = join(path, `${fullName}.git`)
      return (await isRepository(folder)) ? readRepo(fullName, folder, gitIn(folder), now) : undefined
    }),
  )
  const repos = read.filter((repo) => repo !== undefined)
  return yes(repos.sort((a, b) => b.pushedAt.localeCompare(a.pushedAt)))
}

async function listRepoNames(path: string): Promise<Result<string[]>> {
  try {
    const owners = (await readdir(path)).filter((owner) => isRemote(`${owner}/x`)).sort()
    const inside = await Promise.all(
      owners.map(async (owner) => {
        const names = await readdir(join(path, owner)).catch(() => [])
        const bare = names
          .filter((name) => name.endsWith('.git'))
          .map((name) => name.slice(0, -'.git'.length))
        return bare.sort().map((name) => `${owner}/${name}`)
      }),
    )
    return yes(inside.flat().filter(isRemote))
  } catch {
    return no(
      'failed',
      `codehost.path: ${printable(path)} cannot be read; create that folder, or set codehost.path to the one that holds the repositories`,
    )
  }
}

async function readRepo(
  fullName: string,
  folder: string,
  run: RunGit,
  now: number,
): Promise<CodehostRepo | undefined> {
  const [head, newest, description] = await Promise.all([
    runGitForText(run, { args: ['symbolic-ref', '--quiet', 'HEAD'] }),
    runGitForText(run, {
      args: [
        'for-each-ref',
        '--sort=-creatordate',
        '--count=1',
        '--format=%(creatordate:unix)',
        'refs/heads/',
        'refs/tags/',
      ],
    }),
    readDescription(folder),
  ])
  if (!newest.ok) return undefined
  const pushed = newest.value.trim()
  // An empty repository counts as pushed when its folder last changed.
  const pushedMs = pushed === '' ? (await stat(folder)).mtimeMs : Number(pushed) * 1000
  const defaultBranch = head.ok ? toBranchName(head.value.trim()) : ''
  // `private`, because only users of this machine can read it.
  return {
    fullName,
    defaultBranch,
    private: true,
    description,
    pushedAt: instantFromMs(Math.min(pushedMs, now)),
  }
}

function toBranchName(ref: string): string {
  const start = branchRef('')
  return ref.startsWith(start) ? ref.slice(start.length, start.length + NAME_CHARS_MAX) : ''
}

async function readDescription(folder: string): Promise<string> {
  // Do not wait for the writer of a pipe.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK
  const handle = await open(join(folder, 'description'), flags).catch(() => undefined)
  try {
    if ((await handle?.stat())?.isFile() !== true) return ''
    const read = await handle?.read(Buffer.alloc(DESCRIPTION_BYTES_MAX), 0, DESCRIPTION_BYTES_MAX, 0)
    const text = read?.buffer.toString('utf8', 0, read.bytesRead).trim() ?? ''
    return DEFAULT_DESCRIPTION.test(text) ? '' : printable(text.split('\n', 1)[0] ?? '')
  } finally {
    await handle?.close()
  }
}
