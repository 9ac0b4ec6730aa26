/** Computes the size of a change and lists its first files. Runs outside the sandbox, so that the numbers are true. */
import { type Result, yes } from '../../core/result.ts'
import { truncate } from '../../core/safe-text.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { Git } from './git.ts'
import type { CollectedWork } from './git-ports.ts'
import { findReadFirst } from './held-back-changes.ts'

const LOCAL_MS_MAX = 60_000
const FILES_SHOWN = 40
const TEXT_CHARS_MAX = 8 * 1024

export async function computeDiffStats(
  git: Git,
  folder: string,
  head: string,
  base: string,
): Promise<Result<CollectedWork>> {
  const [commits, stat, readFirst] = await Promise.all([
    git.runChecked('counting commits', {
      args: ['rev-list', '--count', `${base}..${head}`],
      folder,
      isUntrusted: true,
      timeoutMs: LOCAL_MS_MAX,
    }),
    git.run({ args: diffArguments(base, head), folder, isUntrusted: true, timeoutMs: LOCAL_MS_MAX }),
    findReadFirst(git, folder, head, base),
  ])
  if (!commits.ok) return commits
  if (!readFirst.ok) return readFirst
  // If git cannot compute the statistics in time, the change is still valid.
  const text = stat.ok && stat.value.code === 0 ? stat.value.output : 'the change is too large to be shown'
  return yes({
    head,
    commits: Number(commits.value.output),
    diff: { ...parseTotals(text), text: printableText(text), readFirst: readFirst.value },
  })
}

function diffArguments(base: string, head: string): string[] {
  return [
    'diff',
    '--no-ext-diff',
    '--no-textconv',
    '--no-renames',
    '--no-color',
    '--stat=100',
    `--stat-count=${FILES_SHOWN}`,
    base,
    head,
  ]
}

function parseTotals(text: string): Omit<CollectedWork['diff'], 'text' | 'readFirst'> {
  const last = text.trimEnd().split('\n').at(-1) ?? ''
  const numberIn = (pattern: RegExp) => Number(pattern.exec(last)?.[1] ?? 0)
  return {
    files: numberIn(/(\d+) files? changed/),
    additions: numberIn(/(\d+) insertions?\(\+\)/),
    deletions: numberIn(/(\d+) deletions?\(-\)/),
  }
}

function printableText(text: string): string {
  const lines = text.trimEnd().split('\n')
  return truncate(lines.map((line) => printable(line.trimEnd())).join('\n'), TEXT_CHARS_MAX)
}
