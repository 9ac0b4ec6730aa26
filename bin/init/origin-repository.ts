/** Finds the repository on GitHub that the checkout of the current folder came from. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const ANSWER_MS_MAX = 5_000

/** Returns `owner/name`; undefined outside of a checkout, and for a repository of another code host. */
export async function findOriginRepository(folder: string): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('git', ['-C', folder, 'remote', 'get-url', 'origin'], {
      timeout: ANSWER_MS_MAX,
    })
    return parseGithubAddress(stdout.trim())
  } catch {
    return undefined
  }
}

const HTTP = /^https?:\/\/(?:[^/@]*@)?(?:www\.)?github\.com(?::\d+)?\/(.+)$/i
const SSH = /^(?:ssh:\/\/)?(?:[^/@]+@)?(?:ssh\.)?github\.com(?::\d+\/|[:/])(.+)$/i

/** Reads `owner/name` from an address that git clones. A token in the address is left out. */
export function parseGithubAddress(address: string): string | undefined {
  const path = (HTTP.exec(address) ?? SSH.exec(address))?.[1]?.replace(/\/+$/, '').replace(/\.git$/i, '')
  return path !== undefined && /^\/?[\w.-]+\/[\w.-]+$/.test(path) ? path.replace(/^\//, '') : undefined
}
