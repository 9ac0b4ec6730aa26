/** `searchOutputs` searches artifacts and memories for the secrets of their run, before any of them is reported. */
import { ARTIFACT_BYTES_MAX } from '../../protocol/limits.ts'
import { ContentScan } from '../secrets/content-scan.ts'
import { explainFoundSecret } from '../secrets/run-secrets.ts'
import type { SecretSearch } from '../secrets/secret-search.ts'
import { fillBuffer, openPlainFile } from './plain-file.ts'

interface LeftFiles {
  readonly files: readonly { readonly path: string; readonly name: string }[]
  /** Sentences about files that are no artifacts. */
  readonly leftOut: readonly string[]
}

const SEARCHED_AT_ONCE = 256 * 1024

/** Returns the sentence about the first secret. Files that the time does not suffice for are not reported either. */
export async function searchOutputs(
  search: SecretSearch,
  facts: readonly string[],
  { files, leftOut }: LeftFiles,
  mayContinue: () => boolean,
): Promise<string | undefined> {
  if (search.isEmpty) return undefined
  const inFacts = search.findIn(facts.join('\n'))
  if (inFacts !== undefined) return explainFoundSecret(search, inFacts, 'a memory', 'a memory')
  const inLeftOut = search.findIn(leftOut.join('\n'))
  if (inLeftOut !== undefined) return explainFoundSecret(search, inLeftOut, 'the name of a file', 'a name')
  const scan = new ContentScan(search)
  for (const { path, name } of files) {
    if (!mayContinue()) break
    const place = `the artifact ${name}`
    const secret = search.findIn(name) ?? (await searchFile(scan, path))
    if (secret !== undefined) return explainFoundSecret(search, secret, place, 'an artifact')
  }
  return undefined
}

/** A file that is too large for an artifact is not reported, so it is not searched. */
async function searchFile(scan: ContentScan, path: string): Promise<string | undefined> {
  const file = await openPlainFile(path)
  if (typeof file === 'string') return undefined
  try {
    if (file.size > ARTIFACT_BYTES_MAX) return undefined
    const buffer = Buffer.alloc(Math.min(SEARCHED_AT_ONCE, Math.max(file.size, 1)))
    scan.reset()
    for (let at = 0; at < file.size; ) {
      const bytesRead = await fillBuffer(file.handle, buffer, at, file.size)
      if (bytesRead === 0) break
      await scan.push(buffer.subarray(0, bytesRead))
      at += bytesRead
    }
    return await scan.end()
  } finally {
    await file.handle.close()
  }
}
