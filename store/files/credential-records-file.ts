/**
 * Stores the origins for which credentials were checked, as JSON beside the configuration file.
 *
 * The file holds hashes and no credential. A file that cannot be read as such counts as empty, with a warning: then
 * each credential belongs to the origin that is configured.
 */
import { readFileSync } from 'node:fs'
import type { Log } from '../../core/ports/log.ts'
import type { CredentialRecordsFile } from '../../core/ports/store.ts'
import type { CredentialRecord, CredentialRecords } from '../../core/settings/credential-origins.ts'
import { codeOf } from '../../protocol/message-of.ts'
import { replaceFile } from './atomic.ts'
import { type GuardWrite, StoreQueue } from './store-queue.ts'

export const CREDENTIAL_RECORDS_FILE = 'credential-origins.json'

export class CredentialRecordsOnDisk implements CredentialRecordsFile {
  readonly #path: string
  readonly #log: Pick<Log, 'warn'>
  readonly #queue: StoreQueue

  constructor(path: string, log: Pick<Log, 'warn'>, guardWrite?: GuardWrite) {
    this.#path = path
    this.#queue = new StoreQueue(guardWrite)
    this.#log = log
  }

  read(): CredentialRecords {
    const text = this.#readText()
    if (text === undefined) return {}
    const records = parseRecords(text)
    if (records === undefined)
      this.#log.warn(
        { path: this.#path },
        'the file is damaged; credentials belong to the configured origins',
      )
    return records ?? {}
  }

  replace(records: CredentialRecords): Promise<void> {
    return this.#queue.run('', async () => {
      await replaceFile(this.#path, `${JSON.stringify({ credentials: records }, undefined, 2)}\n`)
    })
  }

  async close(): Promise<void> {
    await this.#queue.close()
  }

  #readText(): string | undefined {
    try {
      return readFileSync(this.#path, 'utf8')
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined
      throw error
    }
  }
}

/** Undefined for a text of another form. */
function parseRecords(text: string): CredentialRecords | undefined {
  try {
    const credentials: unknown = Reflect.get(Object(JSON.parse(text)), 'credentials')
    const entries = Object.entries(Object(credentials) as Readonly<Record<string, unknown>>)
    return entries.every(isRecord) ? Object.fromEntries(entries) : undefined
  } catch {
    return undefined
  }
}

function isRecord(entry: readonly [string, unknown]): entry is [string, CredentialRecord] {
  const { sha256, origin } = Object(entry[1]) as Partial<Record<keyof CredentialRecord, unknown>>
  return typeof sha256 === 'string' && typeof origin === 'string'
}
