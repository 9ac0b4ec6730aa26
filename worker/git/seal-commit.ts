/**
 * `sealCommit` writes the seal of a follow-up into the header of a commit, by which a later attempt recognises what was
 * pushed; people do not see it.
 *
 * The header is written outside the sandbox, right before the push: git drops a header that it does not know when it
 * writes a commit anew.
 */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { no, type Result, yes } from '../../core/result.ts'
import { COMMIT_MESSAGE_BYTES_MAX } from '../../protocol/limits.ts'
import type { Git } from './git.ts'
import type { RewritePlace } from './rewrite-commits.ts'

export const SEAL_HEADER = 'switchyard-follow-up'
/** A message of the longest kind, and headers: those of signatures and of merged tags are copies of others. */
const COMMIT_BYTES_MAX = 2 * COMMIT_MESSAGE_BYTES_MAX
const LOCAL_MS_MAX = 60_000
const COMMIT_FILE = 'sealed.commit'
const END_OF_HEADER = '\n\n'

/** Returns the sealed commit, which differs from the given one in nothing else. */
export async function sealCommit(
  git: Git,
  { folder, staging }: RewritePlace,
  commit: string,
  seal: string,
): Promise<Result<string>> {
  const call = { folder, isUntrusted: true, timeoutMs: LOCAL_MS_MAX } as const
  const parts: Buffer[] = []
  const read = await git.runChecked('reading the commit', {
    ...call,
    args: ['cat-file', 'commit', commit],
    readOutput: (output) => readParts(output, parts),
  })
  if (!read.ok) return read
  const text = Buffer.concat(parts)
  const end = text.indexOf(END_OF_HEADER)
  if (end < 0) return no('invalid', `the commit ${commit.slice(0, 12)} has no end of its header`)
  const input = join(staging, COMMIT_FILE)
  const header = Buffer.from(`\n${SEAL_HEADER} ${seal}`)
  await writeFile(input, Buffer.concat([text.subarray(0, end), header, text.subarray(end)]), { mode: 0o600 })
  const written = await git.runChecked('writing the commit', {
    ...call,
    args: ['hash-object', '-t', 'commit', '-w', '--stdin'],
    input,
  })
  await rm(input, { force: true })
  return written.ok ? yes(written.value.output.trim()) : written
}

async function readParts(output: Readable, parts: Buffer[]): Promise<void> {
  let bytes = 0
  for await (const part of output) {
    bytes += (part as Buffer).length
    if (bytes > COMMIT_BYTES_MAX) throw new Error(`a commit has more than ${COMMIT_BYTES_MAX} bytes`)
    parts.push(part as Buffer)
  }
}
