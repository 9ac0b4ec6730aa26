/** The usage archive in a plain map. */
import type { UsageArchive, UsageKey } from '../../core/ports.ts'
import { byKeyText, isUsageName, keyText } from '../files/usage-name.ts'

export class VolatileUsageArchive implements UsageArchive {
  readonly #texts = new Map<string, { readonly key: UsageKey; readonly text: string }>()

  async replace(key: UsageKey, text: string): Promise<void> {
    this.#texts.set(keyText(key), { key: { ...key }, text })
  }

  async read(key: UsageKey): Promise<string | undefined> {
    return this.#texts.get(keyText(key))?.text
  }

  async list(projectKey: string): Promise<UsageKey[]> {
    if (!isUsageName(projectKey)) return []
    const keys = [...this.#texts.values()].map(({ key }) => ({ ...key }))
    return keys.filter((key) => key.projectKey === projectKey).sort(byKeyText)
  }
}
