/** Creates ids that look random but are the same in every run, and slugs for addresses and branches. */
import { createHash } from 'node:crypto'

const SLUG_LENGTH_MAX = 60

export function uuid(count: number): string {
  const hex = createHash('sha256').update(`row ${count}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

export function slug(text: string): string {
  const words = text.toLowerCase().replace(/[^a-z0-9]+/g, '-')
  return words.slice(0, SLUG_LENGTH_MAX).replace(/^-|-$/g, '')
}
