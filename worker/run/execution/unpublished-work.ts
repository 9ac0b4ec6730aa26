/**
 * Finished work that is not published yet, as the worker remembers it beside the sandbox from the end of the agent
 * until the work is published. So a worker that died meanwhile knows what the sandbox holds, and publishes it without
 * the agent.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { isNativeError } from 'node:util/types'
import { no, type Refusal, type Refused, type Result, yes } from '../../../core/result.ts'
import type { Run, RunAgentChoice } from '../../../protocol/run.ts'
import type { CheckedOut, FollowUpStart, RunFolders } from '../../git/git-ports.ts'

/** A person has said so much about the run when its agent began. */
export interface Asked {
  readonly instructions: string
  readonly agent: RunAgentChoice
}

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
  /** Absent in notes of earlier versions. */
  readonly asked?: Asked
  /** The agent's last message. */
  readonly summary: string
  /** The hook `afterAgent` of the repository has not come to its end. */
  readonly isHookDue?: true
  /** The host may lack artifacts and memories of the agent, which are in the sandbox still. */
  readonly areOutputsDue?: true
  /** The commit whose bundle the host has. */
  readonly bundled?: string
}

// ---- notes beside a sandbox ----------------------------------------------------------------------------------------

type Staging = Pick<RunFolders, 'staging'>

/** More than a note with the longest usual message of an agent. */
const SPACE_BYTES = 64 * 1024

/**
 * Keeps a note of the worker about a sandbox, in the worker's own folder of the run, which the agent never sees. A
 * missing file reads as undefined, and a refusal names a file that is unreadable or damaged.
 */
export class SandboxNote<T> {
  readonly #name: string
  readonly #flush: boolean

  constructor(name: string, { flush }: { readonly flush: boolean }) {
    this.#name = name
    this.#flush = flush
  }

  /** Takes space for a note, so that a disk that is full later has place for it. */
  async reserve(folders: Staging): Promise<void> {
    await writeFile(`${this.#path(folders)}.space`, Buffer.alloc(SPACE_BYTES, ' '), { mode: 0o600 })
  }

  async save(folders: Staging, value: T): Promise<void> {
    const path = this.#path(folders)
    const text = JSON.stringify(value)
    try {
      await writeFile(`${path}.new`, text, { mode: 0o600, flush: this.#flush })
      await rename(`${path}.new`, path)
    } catch (error) {
      if (!(await this.#saveInSpace(path, text))) throw error
    }
  }

  /** Writes over the reserved blocks, up to the last byte: truncated ones would be free for others. */
  async #saveInSpace(path: string, text: string): Promise<boolean> {
    const padding = SPACE_BYTES - Buffer.byteLength(text)
    if (padding < 0) return false
    try {
      const options = { flag: 'r+', flush: this.#flush }
      await writeFile(`${path}.space`, text + ' '.repeat(padding), options)
      await rename(`${path}.space`, path)
      return true
    } catch {
      return false
    }
  }

  /** Refused: a note is there, so the sandbox must not be taken for one without a note (laws 36 and 37). */
  async read(folders: Staging): Promise<Result<T | undefined>> {
    const path = this.#path(folders)
    try {
      // Trusted content: only the worker writes into this folder.
      const note: unknown = JSON.parse(await readFile(path, 'utf8'))
      return typeof note === 'object' && note !== null ? yes(note as T) : unreadable(path, DAMAGED)
    } catch (error) {
      if (error instanceof SyntaxError) return unreadable(path, DAMAGED)
      if (!isNativeError(error)) throw error
      return 'code' in error && error.code === 'ENOENT' ? yes(undefined) : unreadable(path, error.message)
    }
  }

  forget(folders: Staging): Promise<void> {
    return rm(this.#path(folders), { force: true })
  }

  #path({ staging }: Staging): string {
    return join(staging, this.#name)
  }
}

const DAMAGED = 'the file is damaged'

const unreadable = (path: string, why: string): Refused =>
  no('failed', `the note about the work in the sandbox, ${path}, cannot be read: ${why}`)

// ---- the note of finished work -------------------------------------------------------------------------------------

/**
 * undefined: the sandbox holds no finished work that is not published. Refused: it may hold such work, so no agent is
 * asked anew and nothing of it is deleted.
 */
export const unpublishedWork = new SandboxNote<UnpublishedWork>('unpublished.json', { flush: true })

export const askedOf = ({ instructions = '', agent = {} }: Pick<Run, 'instructions' | 'agent'>): Asked => ({
  instructions,
  agent,
})

/**
 * Otherwise a person wants something else than what the sandbox holds. A note that does not say it is no answer to
 * words.
 */
export const answers = (
  { asked = askedOf({}) }: UnpublishedWork,
  run: Parameters<typeof askedOf>[0],
): boolean => isDeepStrictEqual(asked, askedOf(run))

/** The host has the work published again. */
export const tryAgain = (refusal: Refusal): Refused => ({
  ok: false,
  refusal: { ...refusal, failure: 'publish' },
})
