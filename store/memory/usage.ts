/** The usage archive in memory. */
import type { UsageArchive, UsageKey } from '../../core/ports.ts'
import { StoreClosed } from '../errors.ts'
import { compareUsageKeys, isUsageName, usageKeyText } from '../files/usage-name.ts'

export class MemoryUsageArchive implements UsageArchive {
  readonly #texts = new Map<string, { readonly key: UsageKey; readonly text: string }>()
  #closed = false

  async replace(key: UsageKey, text: string): Promise<void> {
    const name = usageKeyText(key)
    if (this.#closed) throw new StoreClosed('the store is closed')
    this.#texts.set(name, { key: { ...key }, text })
  }

  close(): void {
    this.#closed = true
  }

  async read(key: UsageKey): Promise<string | undefined> {
    return this.#texts.get(usageKeyText(key))?.text
  }

  async list(projectKey: string): Promise<UsageKey[]> {
    if (!isUsageName(projectKey)) return []
    const keys = [...this.#texts.values()].map(({ key }) => ({ ...key }))
    return keys.filter((key) => key.projectKey === projectKey).sort(compareUsageKeys)
  }
}
