/**
 * Archives usage snapshots as `usage/<projectKey>/<sessionId>.json` and
 * `usage/<projectKey>/<sessionId>/<subagentId>.json`.
 *
 * A snapshot replaces the earlier one of the same session or subagent, so a repeated frame never counts twice.
 * Workers choose the three names; unless each is a short plain word, no file is touched.
 */
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { UsageArchive, UsageKey } from '../../core/ports/store.ts'
import { codeOf } from '../../protocol/message-of.ts'
import { isOwnFolder, makeFolder, namesIn, replaceFile, sweepDrafts } from './atomic.ts'
import { type GuardWrite, StoreQueue } from './store-queue.ts'

const SUFFIX = '.json'
const READY_MAX = 10_000

export class UsageOnDisk implements UsageArchive {
  readonly #folder: string
  readonly #queue: StoreQueue
  /**
   * Folders that this process has created and swept, or is preparing: all writers of a folder wait for the same
   * preparation.
   */
  readonly #readyFolders = new Map<string, Promise<void>>()

  constructor(folder: string, guardWrite?: GuardWrite) {
    this.#folder = folder
    this.#queue = new StoreQueue(guardWrite)
  }

  async replace(key: UsageKey, text: string): Promise<void> {
    const path = this.#path(key)
    return this.#queue.run(usageKeyText(key), async () => {
      try {
        await this.#write(path, text)
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
        // The folder was removed meanwhile, so create it again, once.
        this.#readyFolders.delete(dirname(path))
        await this.#write(path, text)
      }
    })
  }

  async read(key: UsageKey): Promise<string | undefined> {
    try {
      return await readFile(this.#path(key), 'utf8')
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
      throw error
    }
  }

  async list(projectKey: string): Promise<UsageKey[]> {
    if (!isUsageName(projectKey)) return []
    const project = join(this.#folder, projectKey)
    const keys: UsageKey[] = []
    for (const name of await namesIn(project)) {
      if (name.endsWith(SUFFIX)) keys.push({ projectKey, sessionId: name.slice(0, -SUFFIX.length) })
      else if (isUsageName(name)) keys.push(...(await this.#subagents(projectKey, name)))
    }
    return keys
      .filter(({ sessionId, subagentId }) => isUsageName(sessionId) && isUsageName(subagentId ?? 'none'))
      .sort(compareUsageKeys)
  }

  /** Refuses new work, and resolves when earlier work is done. */
  async close(): Promise<void> {
    await this.#queue.close()
  }

  async #write(path: string, text: string): Promise<void> {
    await this.#ensureReady(dirname(path))
    await replaceFile(path, text)
  }

  async #subagents(projectKey: string, sessionId: string): Promise<UsageKey[]> {
    const names = await namesIn(join(this.#folder, projectKey, sessionId))
    return names
      .filter((name) => name.endsWith(SUFFIX))
      .map((name) => ({ projectKey, sessionId, subagentId: name.slice(0, -SUFFIX.length) }))
  }

  /** Throws for a name that is not a plain word; the frame's schema should have refused it. */
  #path(key: UsageKey): string {
    usageKeyText(key)
    const session = join(this.#folder, key.projectKey, key.sessionId)
    return key.subagentId === undefined ? session + SUFFIX : join(session, key.subagentId + SUFFIX)
  }

  #ensureReady(folder: string): Promise<void> {
    const known = this.#readyFolders.get(folder)
    if (known !== undefined) return known
    if (this.#readyFolders.size >= READY_MAX) this.#readyFolders.clear()
    const ready = this.#makeReady(folder)
    this.#readyFolders.set(folder, ready)
    ready.catch(() => {
      if (this.#readyFolders.get(folder) === ready) this.#readyFolders.delete(folder)
    })
    return ready
  }

  /** Creates the folder, checks that it is no link, and removes drafts of a crash. */
  async #makeReady(folder: string): Promise<void> {
    await makeFolder(folder)
    for (let each = folder; each.length > this.#folder.length; each = dirname(each)) {
      if (!(await isOwnFolder(each)))
        throw new Error(`${each} is not a plain folder; remove it, and archiving continues`)
    }
    await sweepDrafts(folder)
  }
}

const USAGE_NAME_CHARS_MAX = 200
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/

/**
 * Checks project keys, session ids and subagent ids, which become file names: plain words that are safe on every file
 * system. No leading dot, so a name is never `.`, `..` or a draft; no `.json` suffix, so no session's folder has the
 * name of another session's file; a limited length.
 */
export function isUsageName(name: string): boolean {
  return name.length <= USAGE_NAME_CHARS_MAX && NAME.test(name) && !name.endsWith('.json')
}

/** Returns a unique text for each key. Throws when a part is not a plain word. */
export function usageKeyText({ projectKey, sessionId, subagentId }: UsageKey): string {
  for (const part of [projectKey, sessionId, subagentId ?? 'none']) {
    if (!isUsageName(part))
      throw new TypeError(`not a usable name for a usage snapshot: ${JSON.stringify(part.slice(0, 80))}`)
  }
  return subagentId === undefined ? `${projectKey}/${sessionId}` : `${projectKey}/${sessionId}/${subagentId}`
}

/** Sorts by session, the session itself before its subagents. */
export function compareUsageKeys(a: UsageKey, b: UsageKey): number {
  return usageKeyText(a) < usageKeyText(b) ? -1 : 1
}
