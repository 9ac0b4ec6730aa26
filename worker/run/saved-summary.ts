/**
 * The agent's summary of a follow-up, kept in the staging folder, which the agent never sees.
 *
 * The saved summary survives a crash between the push and the comment, if the follow-up continues on this worker.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxFolders } from './sandboxes.ts'

const SUMMARY_FILE = 'follow-up.json'

export async function saveSummary(
  { staging }: SandboxFolders,
  followUpId: string,
  summary: string,
): Promise<void> {
  const text = JSON.stringify({ id: followUpId, summary })
  await writeFile(join(staging, SUMMARY_FILE), text, { mode: 0o600 })
}

/** undefined: on this worker no attempt of this follow-up reached its push. */
export async function readSummary(
  { staging }: SandboxFolders,
  followUpId: string,
): Promise<string | undefined> {
  try {
    // Trusted content: only the worker writes into this folder.
    const { id, summary } = JSON.parse(await readFile(join(staging, SUMMARY_FILE), 'utf8')) as {
      id: string
      summary: string
    }
    return id === followUpId ? summary : undefined
  } catch {
    return undefined
  }
}
