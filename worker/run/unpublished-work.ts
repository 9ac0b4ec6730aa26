/**
 * Finished work that is not published yet, as the worker remembers it beside the sandbox.
 *
 * The file is in the staging folder, which the agent never sees, from the end of the agent until the work is published. So
 * a worker that died meanwhile knows what the sandbox holds, and publishes it without the agent.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CheckedOut, FollowUpStart, RunFolders } from '../git/git-ports.ts'

export interface UnpublishedWork {
  /** The repository and the branch that the job named. */
  readonly remote: string
  readonly branch: string
  /** The commits from which the work of a new run goes on. */
  readonly from?: CheckedOut
  readonly followUp?: {
    readonly id: string
    readonly start: FollowUpStart
    /** An agent was asked, so there is something to say on the pull request. */
    readonly isAsked: boolean
  }
  /** The agent's last message. */
  readonly summary: string
  /** The commit whose bundle the host has. */
  readonly bundled?: string
}

type Staging = Pick<RunFolders, 'staging'>

const FILE = 'unpublished.json'

const pathOf = ({ staging }: Staging): string => join(staging, FILE)

export async function saveUnpublished(folders: Staging, work: UnpublishedWork): Promise<void> {
  const path = pathOf(folders)
  await writeFile(`${path}.new`, JSON.stringify(work), { mode: 0o600, flush: true })
  await rename(`${path}.new`, path)
}

/** undefined: the sandbox holds no finished work that is not published. */
export async function readUnpublished(folders: Staging): Promise<UnpublishedWork | undefined> {
  try {
    // Trusted content: only the worker writes into this folder.
    return JSON.parse(await readFile(pathOf(folders), 'utf8')) as UnpublishedWork
  } catch {
    return undefined
  }
}

export const forgetUnpublished = (folders: Staging): Promise<void> => rm(pathOf(folders), { force: true })
