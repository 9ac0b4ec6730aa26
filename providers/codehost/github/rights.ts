/** Reads what GitHub lets the token's owner do with a repository. A fine-grained token may have fewer rights still. */
import { type Result, yes } from '../../../core/result.ts'
import { type GithubApi, repoPath } from './api.ts'
import { readField } from './fields.ts'

export async function readPushRight(api: GithubApi, remote: string): Promise<Result<boolean>> {
  const path = repoPath(remote)
  if (!path.ok) return path
  const repo = await api.read(path.value, `repository ${remote}`, 'person')
  return repo.ok ? yes(readField(readField(repo.value, 'permissions'), 'push') !== false) : repo
}
