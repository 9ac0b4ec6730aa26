/**
 * A partly received artifact in `runs/<runId>/parts/`, a folder that no artifact name can reach.
 *
 * The name of the draft file records the progress: `<digest of the artifact's name>.<next part>.<size>`. A part is
 * written after `size` and synced, then a rename advances the name. A crash in between leaves bytes after `size`,
 * which the repeated part overwrites. A refused draft becomes a refusal: `<digest>.<next part>.refused` with the reason.
 * So nothing but the folder has to be remembered.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { open, readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { makeFolder, namesIn, syncFolder } from './atomic.ts'

const REFUSED = 'refused'

export interface ArtifactDraft {
  readonly path: string
  readonly next: number
  readonly size: number
}

export interface ArtifactProgress {
  readonly draft: ArtifactDraft | undefined
  /** Why the artifact is refused until a new attempt begins. A crash can leave the draft beside it. */
  readonly refusal: string | undefined
}

export async function findProgress(folder: string, name: string): Promise<ArtifactProgress> {
  const files = await filesOf(folder, name)
  const drafts = files.filter((each) => !isRefusal(each)).map((each) => parseDraftName(folder, each))
  const refused = files.find(isRefusal)
  const reason = refused === undefined ? '' : await readFile(join(folder, refused), 'utf8')
  // A crash in the middle of a refusal leaves an empty file, and the draft.
  return { draft: drafts.sort((a, b) => b.next - a.next)[0], refusal: reason || undefined }
}

/** Replaces a draft by the reason why its artifact is refused, so that a repeated part has the same result. */
export async function refuseDraft(draft: ArtifactDraft, reason: string): Promise<void> {
  const folder = dirname(draft.path)
  const path = join(folder, `${digestIn(draft)}.${draft.next}.${REFUSED}`)
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW
  const handle = await open(path, flags, 0o600)
  try {
    await handle.writeFile(reason)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await syncFolder(folder)
  await rm(draft.path, { force: true })
}

/** Starts a new draft, and removes the drafts and the refusal of earlier attempts. */
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
  await rename(draft.path, pathOf(folder, digestIn(draft), draft.next + 1, draft.size + bytes))
  await syncFolder(folder)
}

/** Turns the draft into the artifact, replacing an earlier artifact of that name. */
export async function publish(draft: ArtifactDraft, path: string): Promise<void> {
  await makeFolder(dirname(path))
  await rename(draft.path, path)
  await syncFolder(dirname(path))
  await syncFolder(dirname(draft.path))
}

/** Removes the draft and the refusal of an artifact. */
export async function dropDrafts(folder: string, name: string): Promise<void> {
  for (const each of await filesOf(folder, name)) await rm(join(folder, each), { force: true })
}

/** Returns the digests of all names that have a draft or a refusal. */
export async function draftDigests(folder: string): Promise<string[]> {
  return (await namesIn(folder)).map((each) => each.split('.')[0] ?? '')
}

export function digestOf(name: string): string {
  return createHash('sha256').update(name).digest('hex').slice(0, 40)
}

function pathOf(folder: string, digest: string, next: number, size: number): string {
  return join(folder, `${digest}.${next}.${size}`)
}

/** Returns the size that the name of a draft file tells; zero for a refusal. */
export const sizeOfDraft = (file: string): number => Number(file.split('.')[2] ?? 0) || 0

async function filesOf(folder: string, name: string): Promise<string[]> {
  const digest = digestOf(name)
  return (await namesIn(folder)).filter((each) => each.startsWith(`${digest}.`))
}

const digestIn = ({ path }: ArtifactDraft): string => basename(path).split('.')[0] ?? ''

const isRefusal = (file: string): boolean => file.endsWith(`.${REFUSED}`)

function parseDraftName(folder: string, file: string): ArtifactDraft {
  const [, next, size] = file.split('.')
  return { path: join(folder, file), next: Number(next), size: Number(size) }
}
