/**
 * A diff whose lines can be commented on: the files one below the other, scrolling with the page.
 *
 * The page around it owns the state, so that its head and its side panel can show what waits to be sent.
 */
import { computed } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { PullThread } from '../../../protocol/pulls.ts'
import { Button } from '../../elements/button.tsx'
import { Segments } from '../../elements/field.tsx'
import { Icon } from '../../elements/glyph.tsx'
import { PlacedRow } from '../../elements/placed-row.tsx'
import { useNarrow } from '../../elements/use-narrow.ts'
import { useVirtualList } from '../../elements/virtual-list.ts'
import { showTurningMarks } from '../run/log/clean-text.ts'
import { Changes } from './changes.tsx'
import { DraftBox, PendingComment, SentMark } from './diff-comments.tsx'
import { chooseLayout, diffLayout, useDiffKeys } from './diff-keys.ts'
import { DiffLineRow } from './diff-line.tsx'
import { type DiffListRow, keyOfRow, keysOf, listRows } from './diff-list.ts'
import {
  type DiffFile,
  type DiffLine,
  type DiffNote,
  type LinePlace,
  placeKey,
  placeOf,
  splitPath,
} from './diff-rows.ts'
import type { DiffState, LineComment } from './diff-state.ts'

export interface DiffProps {
  readonly state: DiffState
  readonly files: readonly DiffFile[]
  readonly threads?: readonly PullThread[]
  readonly drawThread?: (thread: PullThread, isOutdated: boolean) => ComponentChildren
  /** The address of a file whose diff is not shown. */
  readonly linkOf?: (file: DiffFile) => string | undefined
  /** Sends instructions to the agent of the run. A rejection is shown in the box. */
  readonly sendToAgent?: (instructions: string) => Promise<void>
  /** Why the agent cannot be sent anything now. */
  readonly sendUnavailable?: string | undefined
  /** Why no review can be written now. */
  readonly reviewUnavailable?: string | undefined
  /** Receives a function that scrolls to the head of a file. */
  readonly opener?: { current: ((file: DiffFile) => void) | undefined }
}

const NOTES: Readonly<Record<DiffNote, string>> = {
  binary: 'A binary file, or a change without lines.',
  'too-large': 'The diff of this file is too large to show.',
  renamed: 'Renamed without changes.',
  'no-newline': 'No newline at the end of the file',
}

const HEIGHTS: Readonly<Partial<Record<DiffListRow['is'], number>>> = {
  file: 52,
  thread: 160,
  draft: 142,
  pending: 88,
  sent: 88,
}
const LINE_HEIGHT = 20

/** Two columns do not fit into a narrower window. */
const SPLIT_WIDTH_MIN = 720
const LAYOUTS = [
  ['unified', 'Unified'],
  ['split', 'Split'],
] as const

const NO_THREADS: readonly PullThread[] = []

export function Diff(props: DiffProps) {
  const { state, files } = props
  const threads = props.drawThread === undefined ? NO_THREADS : (props.threads ?? NO_THREADS)
  const maySplit = !useNarrow(SPLIT_WIDTH_MIN)
  useEffect(() => state.dropReturned(threads), [state, threads])
  const rows = useRows(props, threads, maySplit && diffLayout.value === 'split')
  const list = useVirtualList({
    count: rows.length,
    version: rows,
    keyOf: (at) => keyAt(rows, files, at),
    heightOf: (at) => HEIGHTS[rows[at]?.is ?? 'line'] ?? LINE_HEIGHT,
  })
  const opened = useRef<string | undefined>(undefined)
  const open = (place: LinePlace, from?: number): void => {
    opened.current = placeKey(place)
    state.open(place, from)
  }
  const showFile = (file: DiffFile): void => {
    const at = rows.findIndex((row) => row.is === 'file' && files[row.file] === file)
    if (at >= 0) list.scrollTo(at, 'start')
  }
  if (props.opener !== undefined) props.opener.current = showFile
  useDiffKeys({
    state,
    files,
    rows,
    list,
    open,
    showFile,
    maySplit,
    isOpenable: props.reviewUnavailable === undefined || props.sendToAgent !== undefined,
  })
  return (
    <>
      {maySplit && <DiffBar {...props} />}
      <div ref={list.space} class="diff" role="table" aria-label="Changed files" aria-rowcount={rows.length}>
        {list.items.map((item) => {
          const row = rows[item.index]
          return (
            row !== undefined && (
              <PlacedRow
                key={item.key}
                class={`diff-row ${row.is}${isLastOfFile(rows, item.index) ? ' last' : ''}`}
                index={item.index}
                top={list.topOf(item)}
                measure={list.measure}
              >
                <DiffRowContent row={row} diff={props} open={open} isNew={isOpened(row, opened.current)} />
              </PlacedRow>
            )
          )
        })}
      </div>
    </>
  )
}

function useRows(
  { state, files }: DiffProps,
  threads: readonly PullThread[],
  isSplit: boolean,
): readonly DiffListRow[] {
  return useMemo(
    () =>
      computed(() =>
        listRows({
          files,
          threads,
          pending: state.pending,
          sent: state.sent,
          drafts: state.drafts,
          isFolded: (file) => state.isFolded(file),
          isSplit,
        }),
      ),
    [state, files, threads, isSplit],
  ).value
}

function DiffBar({ state, files }: DiffProps) {
  return (
    <div class="diff-bar">
      <span class="faint">
        {files.filter((file) => state.isViewed(file)).length} of {files.length} viewed
      </span>
      <Segments label="Layout of the diff" value={diffLayout.value} options={LAYOUTS} choose={chooseLayout} />
    </div>
  )
}

function keyAt(rows: readonly DiffListRow[], files: readonly DiffFile[], at: number): string {
  const row = rows[at]
  return row === undefined ? String(at) : keyOfRow(row, files, at)
}

const isLastOfFile = (rows: readonly DiffListRow[], at: number): boolean =>
  rows[at + 1]?.file !== rows[at]?.file

const isOpened = (row: DiffListRow, key: string | undefined): boolean =>
  row.is === 'draft' && placeKey(row.draft) === key

interface RowContentProps {
  readonly row: DiffListRow
  readonly diff: DiffProps
  readonly open: (place: LinePlace, from?: number) => void
  readonly isNew: boolean
}

function DiffRowContent({ row, diff, open, isNew }: RowContentProps) {
  const { state, files } = diff
  const file = files[row.file]
  if (file === undefined) return null
  switch (row.is) {
    case 'file':
      return <DiffFileHead state={state} file={file} />
    case 'hunk':
      return (
        <div class="diff-hunk" role="cell">
          {row.text}
        </div>
      )
    case 'note':
      return <NoteRow note={row.note} link={diff.linkOf?.(file)} />
    case 'line':
      return <DiffLineRow line={row.line} {...lineProps(diff, open, file, row.line, row.marks)} />
    case 'pair': {
      const half = (side: 'left' | 'right', line = row[side]) =>
        line === undefined ? (
          <div class="diff-line half none" />
        ) : (
          <DiffLineRow
            line={line}
            half={side}
            {...lineProps(diff, open, file, line, row.marks)}
            {...(side === 'left' && line.kind === 'context' ? OF_THE_OTHER_HALF : {})}
          />
        )
      return (
        <div class="diff-pair">
          {half('left')}
          {half('right')}
        </div>
      )
    }
    case 'thread':
      return (
        <div class="diff-inset" role="cell">
          {diff.drawThread?.(row.thread, row.isOutdated)}
        </div>
      )
    case 'sent':
      return <SentMark state={state} comment={row.comment} />
    case 'pending':
      return <PendingComment state={state} comment={row.comment} />
    case 'draft':
      return (
        <div class="diff-inset" role="cell">
          <DraftBox draft={row.draft} diff={diff} isNew={isNew} />
        </div>
      )
  }
}

/** A line that did not change is commented on at the right. */
const OF_THE_OTHER_HALF = { isChosen: false, isMarked: false, comment: undefined }

function lineProps(
  { state, reviewUnavailable, sendToAgent }: DiffProps,
  open: RowContentProps['open'],
  file: DiffFile,
  line: DiffLine,
  marks?: ReadonlySet<string>,
) {
  const place = placeOf(file.path, line)
  const chosen = state.current.value
  const comment = (isRange: boolean): void => {
    const isSameSide = chosen?.path === place.path && chosen.side === place.side
    state.current.value = place
    open(place, isRange && isSameSide ? chosen.line : undefined)
  }
  return {
    place,
    isChosen: isChosen(place, chosen, state.drafts),
    isMarked: marks !== undefined && keysOf(file.path, line).some((key) => marks.has(key)),
    choose: () => {
      state.current.value = place
    },
    comment: reviewUnavailable === undefined || sendToAgent !== undefined ? comment : undefined,
  }
}

/** The line of the keys, and the lines of a comment on several. */
const isChosen = (place: LinePlace, chosen: LinePlace | undefined, drafts: readonly LineComment[]): boolean =>
  (chosen !== undefined && placeKey(chosen) === placeKey(place)) ||
  drafts.some(
    ({ path, side, from, line }) =>
      from !== undefined &&
      path === place.path &&
      side === place.side &&
      place.line >= from &&
      place.line <= line,
  )

function NoteRow({ note, link }: { readonly note: DiffNote; readonly link: string | undefined }) {
  return (
    <div class="diff-note" role="cell">
      {NOTES[note]} {note === 'too-large' && link !== undefined && <a href={link}>Open the file</a>}
    </div>
  )
}

// ---- the head of a file --------------------------------------------------------------------------------------------

const STATUS_WORDS: Readonly<Record<string, string>> = {
  added: 'New',
  removed: 'Deleted',
  deleted: 'Deleted',
  renamed: 'Renamed',
  copied: 'Copied',
}

/** The head of a file in a diff. */
function DiffFileHead({ state, file }: { readonly state: DiffState; readonly file: DiffFile }) {
  const [folder, name] = splitPath(showTurningMarks(file.path))
  const isFolded = state.isFolded(file)
  return (
    <div class={`diff-head${isFolded ? ' folded' : ''}`} role="cell">
      <h3>
        <button
          type="button"
          class="diff-fold"
          aria-expanded={!isFolded}
          onClick={() => state.toggleFolded(file.path)}
        >
          <Icon name={isFolded ? 'right' : 'down'} />
          <span class="mono diff-path" title={showTurningMarks(file.path)}>
            <bdi>
              {folder}
              <strong>{name}</strong>
            </bdi>
          </span>
        </button>
      </h3>
      {STATUS_WORDS[file.status] !== undefined && <span class="tag">{STATUS_WORDS[file.status]}</span>}
      {/* A binary file has no lines. */}
      {file.additions + file.deletions > 0 && <Changes {...file} />}
      {file.previousPath !== undefined && (
        <span class="faint ellipsis diff-previous" title={showTurningMarks(file.previousPath)}>
          was <bdi class="mono">{showTurningMarks(file.previousPath)}</bdi>
        </span>
      )}
      <span class="diff-viewed">
        <Button small pressed={state.isViewed(file)} act={() => state.toggleViewed(file)}>
          {state.isViewed(file) ? 'Viewed' : 'Mark viewed'} <kbd>V</kbd>
        </Button>
      </span>
    </div>
  )
}
