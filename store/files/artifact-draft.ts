/**
 * A partly received artifact in `runs/<runId>/parts/`, a folder that no artifact name can reach.
 *
 * The name of the draft file records the progress: `<digest of the artifact's name>.<next part>.<size>`. A part is
 * written after `size` and synced, then a rename advances the name. A crash in between leaves bytes after `size`,
 * which the repeated part overwrites. So nothing but the folder has to be remembered.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { makeFolder, namesIn, syncFolder } from './atomic.ts'

export interface ArtifactDraft {
  readonly path: string
  readonly next: number
  readonly size: number
}

export async function findDraft(folder: string, name: string): Promise<ArtifactDraft | undefined> {
  const digest = digestOf(name)
  const drafts = (await namesIn(folder))
    .filter((each) => each.startsWith(`${digest}.`))
    .map((each) => parseDraftName(folder, each))
  return drafts.sort((a, b) => b.next - a.next)[0]
}

/** Starts a new draft and removes those of earlier attempts. */
export async function beginDraft(folder: string, name: string): Promise<ArtifactDraft> {
  await makeFolder(folder)
  await dropDrafts(folder, name)
  return { path: pathOf(folder, digestOf(name), 0, 0), next: 0, size: 0 }
}

/** Writes a part to disk. The draft's name does not include the part until `advance` or `publish`. */
export async function writePart(draft: ArtifactDraft, data: Uint8Array): Promise<void> {
  const handle = await open(draft.path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  try {
    await handle.truncate(draft.size)
    for (let done = 0; done < data.length; ) {
      const { bytesWritten } = await handle.write(data, done, data.length - done, draft.size + done)
      done += bytesWritten
    }
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export async function advance(draft: ArtifactDraft, bytes: number): Promise<void> {
  const folder = dirname(draft.path)
  const [digest = ''] = draft.path.slice(folder.length + 1).split('.')
  await rename(draft.path, pathOf(folder, digest, draft.next + 1, draft.size + bytes))
  await syncFolder(folder)
}

/** Turns the draft into the artifact, replacing an earlier artifact of that name. */
export async function publish(draft: ArtifactDraft, path: string): Promise<void> {
  await makeFolder(dirname(path))
  await rename(draft.path, path)
  await syncFolder(dirname(path))
  await syncFolder(dirname(draft.path))
}

export async function dropDrafts(folder: string, name: string): Promise<void> {
  const digest = digestOf(name)
  for (const each of await namesIn(folder)) {
    if (each.startsWith(`${digest}.`)) await rm(join(folder, each), { force: true })
  }
}

/** Returns the digests of all names that have a draft. */
export async function draftDigests(folder: string): Promise<string[]> {
  return (await namesIn(folder)).map((each) => each.split('.')[0] ?? '')
}

export function digestOf(name: string): string {
  return createHash('sha256').update(name).digest('hex').slice(0, 40)
}

function pathOf(folder: string, digest: string, next: number, size: number): string {
  return join(folder, `${digest}.${next}.${size}`)
}

/** Returns the size that the name of a draft file tells. */
export const sizeOfDraft = (file: string): number => Number(file.split('.')[2] ?? 0) || 0

function parseDraftName(folder: string, file: string): ArtifactDraft {
  const [, next, size] = file.split('.')
  return { path: join(folder, file), next: Number(next), size: Number(size) }
}
