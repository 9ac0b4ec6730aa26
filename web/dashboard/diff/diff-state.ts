/**
 * The state of a diff that a person reads: folded and viewed files, the chosen line, comments being written, and comments
 * that wait for the end of the review.
 *
 * Comments and viewed files survive a reload; the browser keeps them under the name of the diff.
 */
import { batch, type Signal, signal } from '@preact/signals'
import type { LineComment } from './agent-instructions.ts'
import { type DiffFile, type LinePlace, placeKey } from './diff-rows.ts'

interface KeptDiff {
  /** A comment box is open for each of them. */
  readonly drafts: readonly LineComment[]
  /** Added to the review, and not sent. */
  readonly pending: readonly LineComment[]
  /** The file's name and the hash of its patch, so that a file with new changes is not viewed any more. */
  readonly viewed: readonly string[]
}

/** The parts of a browser's storage that are used. */
export interface DiffStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

const EMPTY: KeptDiff = { drafts: [], pending: [], viewed: [] }
const PREFIX = 'switchyard.diff.'

export class DiffState {
  readonly folded: Signal<ReadonlySet<string>> = signal(new Set())
  /** The line that keys act on. */
  readonly current = signal<LinePlace | undefined>(undefined)
  readonly #name: string
  readonly #storage: DiffStorage
  readonly #kept: Signal<KeptDiff>

  /** @param name tells diffs apart, like `acme/api#482` */
  constructor(name: string, storage: DiffStorage) {
    this.#name = PREFIX + name
    this.#storage = storage
    this.#kept = signal(readKept(storage.getItem(this.#name)))
  }

  get drafts(): readonly LineComment[] {
    return this.#kept.value.drafts
  }

  /** The comments of the review that is being written. */
  get pending(): readonly LineComment[] {
    return this.#kept.value.pending
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
  clearPending(): void {
    this.#keep({ pending: [] })
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
    const isEmpty = kept.drafts.length + kept.pending.length + kept.viewed.length === 0
    if (isEmpty) this.#storage.removeItem(this.#name)
    else this.#storage.setItem(this.#name, JSON.stringify(kept))
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
