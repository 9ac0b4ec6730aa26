/**
 * The list that a diff is drawn from: the rows of all files, and after their lines the threads, the comments of the
 * review, and the boxes of comments being written.
 */
import type { PullThread } from '../../../protocol/pulls.ts'
import type { LineComment } from './agent-instructions.ts'
import { type DiffFile, type DiffRow, placeKey, placeOf, rowsOfFile } from './diff-rows.ts'
import { placeOfThread } from './thread-place.ts'

export type DiffListRow =
  | DiffRow
  /** `isOutdated`: its line is not in the diff any more. */
  | {
      readonly is: 'thread'
      readonly file: number
      readonly thread: PullThread
      readonly isOutdated: boolean
    }
  | { readonly is: 'pending'; readonly file: number; readonly comment: LineComment }
  | { readonly is: 'draft'; readonly file: number; readonly draft: LineComment }

export interface DiffListInput {
  readonly files: readonly DiffFile[]
  readonly threads: readonly PullThread[]
  readonly pending: readonly LineComment[]
  readonly drafts: readonly LineComment[]
  readonly isFolded: (file: DiffFile) => boolean
}

/** Rows are made once for each file. */
const knownRows = new WeakMap<DiffFile, readonly DiffRow[]>()

export function rowsOf(file: DiffFile, at: number): readonly DiffRow[] {
  const known = knownRows.get(file)
  if (known !== undefined && known[0]?.file === at) return known
  const rows = rowsOfFile(file, at)
  knownRows.set(file, rows)
  return rows
}

export function listRows(input: DiffListInput): DiffListRow[] {
  return input.files.flatMap((file, at): readonly DiffListRow[] => {
    const rows = rowsOf(file, at)
    return input.isFolded(file) ? rows.slice(0, 1) : withComments(rows, file, at, input)
  })
}

function withComments(
  rows: readonly DiffRow[],
  file: DiffFile,
  at: number,
  { threads, pending, drafts }: DiffListInput,
): readonly DiffListRow[] {
  const isOwn = ({ path }: { readonly path: string }) => path === file.path
  const [ownThreads, ownPending, ownDrafts] = [
    threads.filter(isOwn),
    pending.filter(isOwn),
    drafts.filter(isOwn),
  ]
  if (ownThreads.length + ownPending.length + ownDrafts.length === 0) return rows
  const places = new Set(rows.flatMap((row) => (row.is === 'line' ? keysOf(file.path, row.line) : [])))
  const after = new Map<string, DiffListRow[]>()
  const lost: DiffListRow[] = []
  const add = (key: string | undefined, row: DiffListRow): void => {
    if (key === undefined || !places.has(key)) lost.push(row)
    else after.set(key, [...(after.get(key) ?? []), row])
  }
  for (const thread of ownThreads) {
    const place = placeOfThread(thread, places)
    const isOutdated = place === undefined
    add(place && placeKey(place), { is: 'thread', file: at, thread, isOutdated })
  }
  for (const comment of ownPending) add(placeKey(comment), { is: 'pending', file: at, comment })
  for (const draft of ownDrafts) add(placeKey(draft), { is: 'draft', file: at, draft })
  const lines = rows.slice(1).flatMap((row): DiffListRow[] => {
    if (row.is !== 'line') return [row]
    return [row, ...keysOf(file.path, row.line).flatMap((key) => after.get(key) ?? [])]
  })
  return [...rows.slice(0, 1), ...lost, ...lines]
}

/** A line that did not change has a place on both sides. */
function keysOf(path: string, line: Parameters<typeof placeOf>[1]): string[] {
  const key = placeKey(placeOf(path, line))
  return line.kind === 'context' ? [key, placeKey({ path, line: line.before ?? 0, side: 'LEFT' })] : [key]
}

/** A key that stays with its row while comments come and go. */
export function keyOfRow(row: DiffListRow, files: readonly DiffFile[], at: number): string {
  const path = files[row.file]?.path ?? ''
  switch (row.is) {
    case 'file':
      return `file ${path}`
    case 'line':
      return placeKey(placeOf(path, row.line))
    case 'thread':
      return `thread ${row.thread.id}`
    case 'draft':
      return `draft ${placeKey(row.draft)}`
    case 'pending':
      return `pending ${placeKey(row.comment)} ${row.comment.body.slice(0, 40)}`
    default:
      return `${row.is} ${at}`
  }
}
