/**
 * The state of a diff that a person reads: folded and viewed files, the chosen line, comments being written, and
 * comments that wait for the end of the review.
 *
 * Comments and viewed files survive a reload; the browser keeps them under the name of the diff.
 */
import { batch, type Signal, signal } from '@preact/signals'
import type { PullThread } from '../../../protocol/pulls.ts'
import { keepText, readKeptText } from '../../kept-text.ts'
import { type DiffFile, type DiffLine, type LinePlace, placeKey } from './diff-rows.ts'

/** A comment that left the box. A review's comment stays until the code host returns it. */
export interface SentComment extends LineComment {
  readonly to: 'agent' | 'review'
  readonly at: string
}

interface KeptDiff {
  /** A comment box is open for each of them. */
  readonly drafts: readonly LineComment[]
  /** Added to the review, and not sent. */
  readonly pending: readonly LineComment[]
  readonly sent: readonly SentComment[]
  /** The file's name and the hash of its patch, so that a file with new changes is not viewed any more. */
  readonly viewed: readonly string[]
}

const EMPTY: KeptDiff = { drafts: [], pending: [], sent: [], viewed: [] }
/** The oldest ones go first. */
const SENT_MAX = 50
const PREFIX = 'switchyard.diff.'

export class DiffState {
  readonly folded: Signal<ReadonlySet<string>> = signal(new Set())
  /** The line that keys act on. */
  readonly current = signal<LinePlace | undefined>(undefined)
  readonly #name: string
  readonly #kept: Signal<KeptDiff>

  /** @param name tells diffs apart, like `acme/api#482` */
  constructor(name: string) {
    this.#name = PREFIX + name
    this.#kept = signal(readKept(readKeptText(this.#name)))
  }

  get drafts(): readonly LineComment[] {
    return this.#kept.value.drafts
  }

  /** The comments of the review that is being written. */
  get pending(): readonly LineComment[] {
    return this.#kept.value.pending
  }

  get sent(): readonly SentComment[] {
    return this.#kept.value.sent
  }

  isViewed(file: DiffFile): boolean {
    return this.#kept.value.viewed.includes(viewedKey(file))
  }

  isFolded(file: DiffFile): boolean {
    return this.folded.value.has(file.path)
  }

  toggleFolded(path: string): void {
    const folded = new Set(this.folded.value)
    if (!folded.delete(path)) folded.add(path)
    this.folded.value = folded
  }

  /** A viewed file folds. */
  toggleViewed(file: DiffFile): void {
    const isViewed = this.isViewed(file)
    const others = this.#kept.value.viewed.filter((key) => key !== viewedKey(file))
    batch(() => {
      this.#keep({ viewed: isViewed ? others : [...others, viewedKey(file)] })
      if (this.isFolded(file) === isViewed) this.toggleFolded(file.path)
    })
  }

  /** Opens the comment box of a line. @param from the first of several lines */
  open(place: LinePlace, from?: number): void {
    const key = placeKey(place)
    const isRange = from !== undefined && from < place.line
    const draft: LineComment = { ...place, ...(isRange ? { from } : {}), body: this.#draft(key)?.body ?? '' }
    this.#keep({ drafts: [...this.#without(key), draft] })
  }

  write(place: LinePlace, body: string): void {
    const key = placeKey(place)
    this.#keep({
      drafts: this.drafts.map((draft) => (placeKey(draft) === key ? { ...draft, body } : draft)),
    })
  }

  discard(place: LinePlace): void {
    this.#keep({ drafts: this.#without(placeKey(place)) })
  }

  addToReview(place: LinePlace): void {
    const draft = this.#draft(placeKey(place))
    if (draft === undefined || draft.body.trim() === '') return
    this.#keep({ drafts: this.#without(placeKey(place)), pending: [...this.pending, draft] })
  }

  /** Takes a comment out of the review, back into its box. */
  edit(comment: LineComment): void {
    const drafts = [...this.#without(placeKey(comment)), comment]
    this.#keep({ drafts, pending: this.pending.filter((each) => each !== comment) })
  }

  remove(comment: LineComment): void {
    this.#keep({ pending: this.pending.filter((each) => each !== comment) })
  }

  /** After the review was sent. */
  markPendingSent(): void {
    this.#keep({ pending: [], sent: this.#withSent('review', this.pending) })
  }

  /** After the agent was sent a comment: its box gives way to a mark on the line. */
  markSentToAgent(place: LinePlace): void {
    const key = placeKey(place)
    const own = this.drafts.filter((draft) => placeKey(draft) === key)
    this.#keep({ drafts: this.#without(key), sent: this.#withSent('agent', own) })
  }

  hideSent(comment: SentComment): void {
    this.#keep({ sent: this.sent.filter((each) => each !== comment) })
  }

  /** A review's comment that the code host returns stands in its thread. */
  dropReturned(threads: readonly PullThread[]): void {
    const isReturned = ({ to, path, body }: SentComment) =>
      to === 'review' &&
      threads.some(
        (thread) => thread.path === path && thread.comments.some((each) => each.body.trim() === body.trim()),
      )
    if (this.sent.some(isReturned)) this.#keep({ sent: this.sent.filter((each) => !isReturned(each)) })
  }

  #withSent(to: SentComment['to'], comments: readonly LineComment[]): SentComment[] {
    const at = new Date().toISOString()
    return [...this.sent, ...comments.map((comment) => ({ ...comment, to, at }))].slice(-SENT_MAX)
  }

  #draft(key: string): LineComment | undefined {
    return this.drafts.find((draft) => placeKey(draft) === key)
  }

  #without(key: string): LineComment[] {
    return this.drafts.filter((draft) => placeKey(draft) !== key)
  }

  #keep(changes: Partial<KeptDiff>): void {
    const kept = { ...this.#kept.value, ...changes }
    this.#kept.value = kept
    const isEmpty = kept.drafts.length + kept.pending.length + kept.sent.length + kept.viewed.length === 0
    keepText(this.#name, isEmpty ? undefined : JSON.stringify(kept))
  }
}

function readKept(text: string | null): KeptDiff {
  try {
    return { ...EMPTY, ...JSON.parse(text ?? '{}') }
  } catch {
    return EMPTY
  }
}

/** A hash without any claim to safety: it only tells versions of a patch apart. */
function viewedKey({ path, patch = '', additions, deletions }: DiffFile): string {
  let hash = 0
  for (let at = 0; at < patch.length; at++) hash = (Math.imul(hash, 31) + patch.charCodeAt(at)) | 0
  return `${path} ${additions} ${deletions} ${hash}`
}

// ---- comments as instructions --------------------------------------------------------------------------------------

export interface LineComment {
  readonly path: string
  readonly side: 'LEFT' | 'RIGHT'
  /** The first of several lines. */
  readonly from?: number
  readonly line: number
  readonly body: string
}

/** More lines than this say no more, and instructions have a limit. */
const QUOTED_LINES_MAX = 40

/** Comments on lines as instructions for the agent: the place, the lines as they are now, and the words. */
export function instructionsOf(
  comments: readonly { readonly comment: LineComment; readonly lines: readonly DiffLine[] }[],
): string {
  return comments.map(({ comment, lines }) => instructionOf(comment, lines)).join('\n\n')
}

function instructionOf(comment: LineComment, lines: readonly DiffLine[]): string {
  const before = comment.side === 'LEFT' ? ' of the file before the change' : ''
  const quoted = lines.slice(0, QUOTED_LINES_MAX).map(({ text }) => `> ${text}`)
  if (lines.length > QUOTED_LINES_MAX) quoted.push(`> … ${lines.length - QUOTED_LINES_MAX} more lines`)
  return [`${comment.path}, ${lineWords(comment)}${before}:`, ...quoted, comment.body.trim()].join('\n')
}

/** `line 114`, `lines 112 to 114`. */
export const lineWords = ({ from, line }: Pick<LineComment, 'from' | 'line'>): string =>
  from === undefined || from === line ? `line ${line}` : `lines ${from} to ${line}`
